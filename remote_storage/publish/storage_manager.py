"""Find the remote location of a broker: from DescribeConfigs and from its server.properties.

DescribeConfigs returns the storage manager class and the log directories of every broker. It hides the settings of the
storage manager. If a broker runs on this host, tiersnap reads these settings from its server.properties.

    class                                             settings (below rsm.config.)
    org.apache.kafka.…LocalTieredStorage              dir
    io.aiven.kafka.tieredstorage.RemoteStorageManager storage.backend.class and key.prefix, with
        …storage.s3.S3Storage                           storage.s3.bucket.name, storage.s3.endpoint.url
        …storage.filesystem.FileSystemStorage           storage.root

The plugin adds no slash to `key.prefix`: the prefix `tiers` gives keys like `tiersorders-…`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topic_checks import value_of
from tiersnap.remote_storage.cluster.topics import TopicConfig
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
    """The answer of DescribeConfigs for one broker. Without a storage manager, `class_name` is ""."""

    broker: int
    class_name: str
    log_dirs: tuple[str, ...]
    # names and values of the remote storage settings; None for a hidden value
    remote: tuple[tuple[str, str | None], ...] = ()


def ask_brokers(cluster: Cluster) -> list[BrokerAnswer]:
    """Ask every broker for its settings. Omit brokers that refuse or do not answer."""
    return list(filter(None, in_parallel(partial(_ask, cluster), sorted(cluster.brokers()))))


def _ask(cluster: Cluster, broker: int) -> BrokerAnswer | None:
    try:
        settings = cluster.broker_settings(broker)
    except (ClusterRefusedError, BrokerUnavailableError) as error:
        _log.debug("broker %d does not return its settings: %s", broker, error.message)
        return None
    log_dirs = value_of(settings, "log.dirs", "") or value_of(settings, "log.dir", "")
    class_name, paths = value_of(settings, CLASS_NAME, ""), tuple(_split(log_dirs))
    return BrokerAnswer(broker, class_name, paths, tuple(_remote_settings(settings)))


def _remote_settings(settings: Mapping[str, TopicConfig]) -> Iterator[tuple[str, str | None]]:
    beginnings = _SETTINGS, value_of(settings, _PREFIX_NAME, "") or _PREFIX
    for name in sorted(settings):
        if name.startswith(beginnings):
            yield name, settings[name].value


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """The place of remote segments, as a storage manager's settings give it."""

    layout: str  # name of the layout
    bucket: str  # S3 bucket; "" for a directory
    prefix: str  # key.prefix, unchanged; for a directory, the path with key.prefix at its end
    endpoint: str = ""  # S3 endpoint by `endpoint_of`; "" for a directory

    def __str__(self) -> str:
        if not self.bucket:
            return f"{self.prefix} ({self.layout})"
        server = ""
        if self.endpoint != _AWS:
            server = f" at {self.endpoint}"
        return f"s3://{self.bucket}/{self.prefix}{server} ({self.layout})"


def endpoint_of(url: str | None) -> str:
    """Return `host:port` of an S3 endpoint URL. For an AWS host or a URL without a host, return "AWS"."""
    if url is None:
        return _AWS
    found = urlsplit(url)
    host = found.hostname
    if host is None or host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return _AWS
    return f"{host}:{found.port or _PORTS.get(found.scheme.lower(), 443)}"


def layout_of_classes(classes: Collection[str], given: str | None) -> str | None:
    """Return the layout of the brokers' storage manager classes. If no class is known, return `given`.

    Args:
        classes: class names; "" for a broker without a storage manager.
        given: the layout that the user named, or None.

    Raises:
        WrongPlaceError: the classes have another layout than `given`, or different layouts.
        UsageError: tiersnap knows no layout of the class, and `given` is None.
    """
    named = sorted(filter(None, classes))
    known = {LAYOUT_OF_CLASS[name] for name in named if name in LAYOUT_OF_CLASS}
    if len(known) > 1:
        raise WrongPlaceError(
            f"{CLASS_NAME}: brokers have different classes, {' and '.join(named)}, which cannot read each other's "
            "remote segments",
            hint="give all brokers the same storage manager class",
        )
    if not known:
        if named and given is None:
            raise UsageError(
                f"{CLASS_NAME} is {', '.join(named)}, and tiersnap does not know the layout of this class",
                hint=f"give --layout {' or '.join(sorted(set(LAYOUT_OF_CLASS.values())))}",
            )
        return given
    layout = known.pop()
    if given not in (None, layout):
        raise WrongPlaceError(
            f"--layout {given}: brokers read another layout, because their {CLASS_NAME} is {', '.join(named)}",
            hint=f"remove --layout, or give --layout {layout}",
        )
    return layout


def place_of_broker(settings: Mapping[str, str]) -> StoragePlace:
    """Return the place where a broker with these settings stores remote segments.

    Raises:
        ValueError: the settings name no known place. The error message contains no secret values.
    """
    name = settings.get(CLASS_NAME, "")
    layout = LAYOUT_OF_CLASS.get(name)
    if layout is None:
        if not name:
            raise ValueError(f"no {CLASS_NAME}")
        raise ValueError(f"{CLASS_NAME}={name}: tiersnap does not know where this class stores segments")
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
    raise ValueError(f"storage.backend.class={backend}: tiersnap does not know where this class stores segments")


def client_words(settings: Mapping[str, str]) -> list[str]:
    """Return the options --bootstrap-server and --command-config for a broker with these settings.

    The list is empty if the settings name no client listener. For a listener with SASL or TLS, the properties file in
    --command-config is a placeholder, because only the user knows its path.
    """
    if not settings:
        return []
    controllers = _names(settings, "controller.listener.names")
    protocols = dict(each.split(":") for each in _names(settings, "listener.security.protocol.map") if ":" in each)
    listeners = _names(settings, "advertised.listeners") or _names(settings, "listeners") or ["PLAINTEXT://:9092"]
    found = []
    for each in listeners:
        name, _, address = each.partition("://")
        if name in controllers:
            continue
        is_secured = protocols.get(name, name) != "PLAINTEXT"
        found.append((is_secured, ["--bootstrap-server", _reachable(address)]))
    if not found:
        return []
    is_secured, words = min(found)
    if is_secured:
        words += ["--command-config", "client.properties"]
    return words


def _reachable(address: str) -> str:
    """Return `host:port` of a listener. For a listener on all interfaces, the host is localhost."""
    host, _, port = address.rpartition(":")
    if host in ("", "0.0.0.0"):
        host = "localhost"
    return f"{host}:{port}"


def _names(settings: Mapping[str, str], name: str) -> list[str]:
    return _split(settings.get(name, ""))


def _split(values: str) -> list[str]:
    return [each.strip() for each in values.split(",") if each.strip()]


@dataclass(frozen=True, slots=True)
class NamedLocation:
    """The remote location of a broker, as values of tiersnap's options."""

    remote: str  # URI, or the path of a directory on this host
    layout: str  # name of the layout
    settings: StoreSettings = field(default_factory=StoreSettings)

    @property
    def words(self) -> list[str]:
        """Return the value of --remote and the other options of the location, for a printed command."""
        return location_words(self.remote, self.layout, self.settings.words)


def location_of_broker(broker: BrokerSettings) -> NamedLocation:
    """Return the remote location of a broker with these settings.

    Raises:
        ValueError: the settings name no known location, or key.prefix does not end with /. The message contains no
            secret values.
    """
    place = place_of_broker(broker.values)
    if place.prefix and not place.prefix.endswith("/"):
        raise ValueError("key.prefix does not end with /")
    if not place.bucket:
        try:
            return NamedLocation(broker.on_host(place.prefix), place.layout)
        except OSError as error:
            raise ValueError(error.strerror or str(error)) from error
    uri = f"s3://{place.bucket}/{place.prefix}".rstrip("/")
    return NamedLocation(uri, place.layout, StoreSettings(_s3_settings(broker.values, place)))


def _s3_settings(values: Mapping[str, str], place: StoragePlace) -> S3Settings:
    below = values.get(_PREFIX_NAME) or _PREFIX
    endpoint_url = None
    if place.endpoint != _AWS:
        endpoint_url = values[f"{below}storage.s3.endpoint.url"]
    return S3Settings(
        endpoint_url=endpoint_url,
        region=values.get(f"{below}storage.s3.region"),
        path_style=values.get(f"{below}storage.s3.path.style.access.enabled") == "true",
    )


def _given(settings: Mapping[str, str], name: str) -> str:
    value = _plain(settings, name)
    if not value:
        raise ValueError(f"the remote storage settings of the broker have no {name}")
    return value


def _plain(settings: Mapping[str, str], name: str) -> str:
    value = settings.get(name, "")
    if "${" in value:
        raise ValueError(f"tiersnap cannot read {name}, because a config provider supplies its value")
    return value
