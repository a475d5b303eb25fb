"""Read the storage manager of a cluster's brokers, and say where one with given settings keeps remote segments.

DescribeConfigs shows the class of the storage manager and the log directories of every broker; the settings of the
storage manager itself it hides. Those of a broker that runs on this host are read from its server.properties.

    class                                             settings (below rsm.config.)
    org.apache.kafka.…LocalTieredStorage              dir
    io.aiven.kafka.tieredstorage.RemoteStorageManager storage.backend.class and key.prefix, with
        …storage.s3.S3Storage                           storage.s3.bucket.name, storage.s3.endpoint.url
        …storage.filesystem.FileSystemStorage           storage.root

The plugin takes `key.prefix` as it is: `tiers` gives keys `tiersorders-…`, which are in no folder of that name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topic_checks import value_of
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError, WrongPlaceError
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.store_settings import StoreSettings, location_words
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.host.running_broker import BrokerSettings

LAYOUT_OF_CLASS = {
    "org.apache.kafka.server.log.remote.storage.LocalTieredStorage": "local-tiered-storage",
    "io.aiven.kafka.tieredstorage.RemoteStorageManager": "aiven",
}
"""Name of the layout by remote.log.storage.manager.class.name."""
CLASS_NAME = "remote.log.storage.manager.class.name"
_SETTINGS = "remote.log.storage."
_PREFIX_NAME, _PREFIX = "remote.log.storage.manager.impl.prefix", "rsm.config."
_AIVEN = "io.aiven.kafka.tieredstorage.storage."
_S3, _FILE_SYSTEM = f"{_AIVEN}s3.S3Storage", f"{_AIVEN}filesystem.FileSystemStorage"
_AWS = "AWS"
_PORTS = {"http": 80, "https": 443}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """The answer of DescribeConfigs about one broker; `class_name` is "" if it has no storage manager."""

    broker: int
    class_name: str
    log_dirs: tuple[str, ...]
    # names and values of its settings of remote storage; None for a value that brokers hide
    remote: tuple[tuple[str, str | None], ...] = ()


def ask_brokers(cluster: Cluster) -> list[BrokerAnswer]:
    """Ask every broker; those that refuse or do not answer are left out."""
    answers = in_parallel(partial(_ask, cluster), sorted(cluster.brokers()))
    return [each for each in answers if each is not None]


def _ask(cluster: Cluster, broker: int) -> BrokerAnswer | None:
    try:
        settings = cluster.broker_settings(broker)
    except (ClusterRefusedError, BrokerUnavailableError) as error:
        _log.debug("broker %d does not say its settings: %s", broker, error.message)
        return None
    log_dirs = value_of(settings, "log.dirs", "") or value_of(settings, "log.dir", "")
    paths = tuple(filter(None, (each.strip() for each in log_dirs.split(","))))
    beginnings = _SETTINGS, value_of(settings, _PREFIX_NAME, "") or _PREFIX
    remote = ((name, settings[name].value) for name in sorted(settings) if name.startswith(beginnings))
    return BrokerAnswer(broker, value_of(settings, CLASS_NAME, ""), paths, tuple(remote))


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """The place of objects."""

    layout: str  # name of the layout
    bucket: str  # of S3; "" for a directory
    prefix: str  # what all keys begin with, as it is; of a directory what stands before every file's path
    endpoint: str = ""  # of S3, as `endpoint_of` gives it; "" for a directory

    def __str__(self) -> str:
        if not self.bucket:
            return f"{self.prefix} ({self.layout})"
        server = "" if self.endpoint == _AWS else f" at {self.endpoint}"
        return f"s3://{self.bucket}/{self.prefix}{server} ({self.layout})"


def endpoint_of(url: str | None) -> str:
    """Return one name of an S3 server: `host:port`, and AWS for whatever host of AWS a URL names, or none."""
    found = urlsplit(url or "")
    host = (found.hostname or "").lower()
    if not host or host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return _AWS
    return f"{host}:{found.port or _PORTS.get(found.scheme.lower(), 443)}"


def layout_of_classes(classes: Collection[str], given: str | None) -> str | None:
    """Return the layout that brokers read, by the classes of their storage managers; None where nothing tells.

    Args:
        classes: "" of a broker that has none.
        given: the layout that a user named; None for none.

    Raises:
        WrongPlaceError: they read another layout than `given`, or several.
        UsageError: no layout of their class is known, and none was given.
    """
    named = sorted(filter(None, classes))
    known = {LAYOUT_OF_CLASS[name] for name in named if name in LAYOUT_OF_CLASS}
    if len(known) > 1:
        raise WrongPlaceError(
            f"{CLASS_NAME}: brokers have {' and '.join(named)}: none of them reads what the others tier",
            hint="give all brokers the same storage manager",
        )
    if known and given is not None and given not in known:
        raise WrongPlaceError(
            f"--layout {given}: not what brokers read: their {CLASS_NAME} is {', '.join(named)}",
            hint=f"leave --layout out, or give --layout {next(iter(known))}",
        )
    if named and not known and given is None:
        raise UsageError(
            f"{CLASS_NAME} is {', '.join(named)}: tiersnap does not know its layout",
            hint=f"--layout, one of {', '.join(sorted(set(LAYOUT_OF_CLASS.values())))}",
        )
    return next(iter(known), given)


def place_of_broker(settings: Mapping[str, str]) -> StoragePlace:
    """Return where a broker with these settings keeps remote segments.

    Raises:
        ValueError: the settings do not tell; the text says why, and names no value that may be secret.
    """
    name = settings.get(CLASS_NAME, "")
    layout = LAYOUT_OF_CLASS.get(name)
    if layout is None:
        raise ValueError(f"{CLASS_NAME}={name}: tiersnap does not know where it stores" if name else f"no {CLASS_NAME}")
    below = settings.get(_PREFIX_NAME) or _PREFIX
    found = {key.removeprefix(below): value for key, value in settings.items() if key.startswith(below)}
    if layout == "local-tiered-storage":
        return StoragePlace(layout, "", _given(found, "dir") + "/")
    prefix = _plain(found, "key.prefix")
    backend = _given(found, "storage.backend.class")
    if backend == _S3:
        endpoint = endpoint_of(_plain(found, "storage.s3.endpoint.url"))
        return StoragePlace(layout, _given(found, "storage.s3.bucket.name"), prefix, endpoint)
    if backend == _FILE_SYSTEM:
        return StoragePlace(layout, "", f"{_given(found, 'storage.root')}/{prefix}")
    raise ValueError(f"storage.backend.class={backend}: tiersnap does not know where it stores")


def client_words(settings: Mapping[str, str]) -> list[str]:
    """Return the options that name a broker with these settings as a server; none if they do not tell.

    A listener with SASL or TLS needs client properties, of which only the user knows where they are.
    """
    controllers = _names(settings, "controller.listener.names")
    protocols = dict(each.split(":") for each in _names(settings, "listener.security.protocol.map") if ":" in each)
    listeners = _names(settings, "advertised.listeners") or _names(settings, "listeners") or ["PLAINTEXT://:9092"]
    found = []
    for each in listeners if settings else ():
        name, _, address = each.partition("://")
        if name not in controllers:
            found.append((protocols.get(name, name) != "PLAINTEXT", ["--bootstrap-server", _reachable(address)]))
    if not found:
        return []
    is_secured, words = min(found)
    return [*words, "--command-config", "client.properties"] if is_secured else words


def _reachable(address: str) -> str:
    """Return an address of a listener on this host, with a name for one that listens on all interfaces."""
    host, _, port = address.rpartition(":")
    return f"{'localhost' if host in ('', '0.0.0.0') else host}:{port}"


def _names(settings: Mapping[str, str], name: str) -> list[str]:
    return [each.strip() for each in settings.get(name, "").split(",") if each.strip()]


@dataclass(frozen=True, slots=True)
class NamedLocation:
    """The remote location that a broker's settings name, as tiersnap's options name it."""

    remote: str  # URI, or the path of a directory on this host
    layout: str  # name of the layout
    settings: StoreSettings = field(default_factory=StoreSettings)

    @property
    def words(self) -> list[str]:
        """Return the value of --remote and the options by which the location is reached."""
        return location_words(self.remote, self.layout, self.settings.words)


def location_of_broker(broker: BrokerSettings) -> NamedLocation:
    """Return the remote location that the settings of a broker name.

    Raises:
        ValueError: the settings do not tell, or keys begin with a prefix that is no folder; the text names no value
            that may be secret.
    """
    place = place_of_broker(broker.values)
    if place.prefix and not place.prefix.endswith("/"):
        raise ValueError("key.prefix does not end with /")
    if not place.bucket:
        try:
            return NamedLocation(broker.on_host(place.prefix), place.layout)
        except OSError as error:
            raise ValueError(error.strerror or str(error)) from error
    below = broker.values.get(_PREFIX_NAME) or _PREFIX
    s3 = S3Settings(
        endpoint_url=None if place.endpoint == _AWS else broker.values[f"{below}storage.s3.endpoint.url"],
        region=broker.values.get(f"{below}storage.s3.region"),
        path_style=broker.values.get(f"{below}storage.s3.path.style.access.enabled") == "true",
    )
    return NamedLocation(f"s3://{place.bucket}/{place.prefix}".rstrip("/"), place.layout, StoreSettings(s3))


def _given(settings: Mapping[str, str], name: str) -> str:
    value = _plain(settings, name)
    if not value:
        raise ValueError(f"no {name} among its settings of remote storage")
    return value


def _plain(settings: Mapping[str, str], name: str) -> str:
    value = settings.get(name, "")
    if "${" in value:
        raise ValueError(f"{name} comes from a config provider")
    return value
