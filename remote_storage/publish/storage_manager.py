"""Read the storage manager of a cluster's brokers, and the settings of those that run on this host.

DescribeConfigs shows the class of the storage manager and the log directories of every broker; the settings of the
storage manager itself it hides. A broker that runs on this host holds `.lock` of its log directories: its command line
names its server.properties.

    class                                             settings (below rsm.config.)
    org.apache.kafka.…LocalTieredStorage              dir
    io.aiven.kafka.tieredstorage.RemoteStorageManager storage.backend.class and key.prefix, with
        …storage.s3.S3Storage                           storage.s3.bucket.name, storage.s3.endpoint.url
        …storage.filesystem.FileSystemStorage           storage.root

The plugin takes `key.prefix` as it is: `tiers` gives keys `tiersorders-…`, which are in no folder of that name.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topic_checks import value_of
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError, WrongPlaceError
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.publish.location_proof import Evidence, EvidenceKind, EvidenceOutcome
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.paced_store import PacedStore
from tiersnap.remote_storage.stores.requests import in_parallel
from tiersnap.snapshot.errors import CorruptCheckpointError, UsageError
from tiersnap.snapshot.formats import meta_properties
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.host.running import BrokerSettings, broker_settings, lock_holder

LAYOUT_OF_CLASS = {
    "org.apache.kafka.server.log.remote.storage.LocalTieredStorage": "local-tiered-storage",
    "io.aiven.kafka.tieredstorage.RemoteStorageManager": "aiven",
}
"""Name of the layout by remote.log.storage.manager.class.name."""
CLASS_NAME = "remote.log.storage.manager.class.name"
_PREFIX_NAME, _PREFIX = "remote.log.storage.manager.impl.prefix", "rsm.config."
_AIVEN = "io.aiven.kafka.tieredstorage.storage."
_S3, _FILE_SYSTEM = f"{_AIVEN}s3.S3Storage", f"{_AIVEN}filesystem.FileSystemStorage"
_AWS = "AWS"
_PORTS = {"http": 80, "https": 443}

_log = logging.getLogger(__name__)

_KIND = EvidenceKind.SERVER_PROPERTIES


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """The answer of DescribeConfigs about one broker; `class_name` is "" if it has no storage manager."""

    broker: int
    class_name: str
    log_dirs: tuple[str, ...]


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
    return BrokerAnswer(broker, value_of(settings, CLASS_NAME, ""), paths)


def brokers_here(cluster_id: str, log_dirs: Iterable[str]) -> Iterator[BrokerSettings | str]:
    """Yield the settings of each broker of a cluster that holds one of `log_dirs` here, or why they are not known.

    A directory that is not here, or that no process of this host holds, says nothing.
    """
    seen: set[int] = set()
    for name in dict.fromkeys(log_dirs):
        log_dir = Path(name)
        try:
            holder = lock_holder(log_dir)
            if holder is None or holder.pid in seen or _cluster_of(log_dir) != cluster_id:
                continue
            if not holder.pid:
                yield f"the broker at {log_dir} runs in another container"
                continue
            seen.add(holder.pid)
            yield broker_settings(holder.pid)
        except (OSError, CorruptCheckpointError) as error:
            why = error.message if isinstance(error, CorruptCheckpointError) else error.strerror or str(error)
            yield f"the settings of the broker at {log_dir} cannot be read: {why}"


def _cluster_of(log_dir: Path) -> str:
    path = log_dir / META_PROPERTIES
    return meta_properties.parse(path.read_text("utf-8", "replace"), name=str(path)).cluster_id


def settings_evidence(found: Sequence[BrokerSettings | str], location: RemoteLocation) -> Evidence:
    """Return what the settings of brokers on this host say of a remote location."""
    if not found:
        return Evidence(_KIND, EvidenceOutcome.SILENT, "no broker of the cluster runs on this host")
    each = [_one(broker, location) if isinstance(broker, BrokerSettings) else broker for broker in found]
    compared = [evidence for evidence in each if isinstance(evidence, Evidence)]
    against = [evidence for evidence in compared if evidence.outcome is EvidenceOutcome.CONTRADICTS]
    if compared:
        return (against or compared)[0]
    return Evidence(_KIND, EvidenceOutcome.SILENT, "; ".join(str(why) for why in each))


def _one(broker: BrokerSettings, location: RemoteLocation) -> Evidence | str:
    try:
        theirs = place_of_broker(broker.values)
    except ValueError as error:
        return f"{broker.path} of the running broker: {error}"
    ours = place_of_location(location)
    said = f"{broker.path} of the running broker (process {broker.pid}) names {theirs}"
    if _is_same(broker, theirs, ours):
        return Evidence(_KIND, EvidenceOutcome.HOLDS, said)
    return Evidence(_KIND, EvidenceOutcome.CONTRADICTS, f"{said}, and this is {ours}")


def place_of_location(location: RemoteLocation) -> StoragePlace:
    """Return a remote location as the settings of a storage manager would name it."""
    store, layout = location.store, location.layout.name
    inner = store.inner if isinstance(store, PacedStore) else store
    if isinstance(inner, DirectoryStore):
        return StoragePlace(layout, "", f"{inner.root}/")
    from tiersnap.remote_storage.stores.s3_store import S3Store

    assert isinstance(inner, S3Store)
    return StoragePlace(layout, inner.bucket, inner.prefix, endpoint_of(inner.client.meta.endpoint_url))


def _is_same(broker: BrokerSettings, theirs: StoragePlace, ours: StoragePlace) -> bool:
    if theirs.bucket or ours.bucket or theirs.layout != ours.layout:
        return theirs == ours
    folder, rest = posixpath.split(theirs.prefix)
    try:
        return not rest and broker.located(folder).samefile(ours.prefix)
    except OSError:
        return False


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
        host, _, port = address.rpartition(":")
        if name not in controllers:
            server = f"{'localhost' if host in ('', '0.0.0.0') else host}:{port}"
            found.append((protocols.get(name, name) != "PLAINTEXT", ["--bootstrap-server", server]))
    if not found:
        return []
    is_secured, words = min(found)
    return [*words, "--command-config", "client.properties"] if is_secured else words


def _names(settings: Mapping[str, str], name: str) -> list[str]:
    return [each.strip() for each in settings.get(name, "").split(",") if each.strip()]


def remote_words(broker: BrokerSettings) -> list[str]:
    """Return what --remote names for a broker that runs here, and the options by which it is reached.

    None if its settings do not tell, or keys begin with a prefix that is no folder.
    """
    try:
        place = place_of_broker(broker.values)
        folder = str(broker.located(place.prefix)) if not place.bucket else place.prefix
    except (OSError, ValueError):
        return []
    if place.prefix and not place.prefix.endswith("/"):
        return []
    lies_as = [] if place.layout == "aiven" else ["--layout", place.layout]
    if not place.bucket:
        return [folder.removeprefix(broker.root) if _is_own_root(broker) else folder, *lies_as]
    below = broker.values.get(_PREFIX_NAME) or _PREFIX
    reached = [] if place.endpoint == _AWS else ["--endpoint-url", broker.values[f"{below}storage.s3.endpoint.url"]]
    region = broker.values.get(f"{below}storage.s3.region")
    is_path_style = broker.values.get(f"{below}storage.s3.path.style.access.enabled") == "true"
    reached += [*(["--region", region] if region else []), *(["--path-style"] if is_path_style else [])]
    return [f"s3://{place.bucket}/{folder}".rstrip("/"), *lies_as, *reached]


def _is_own_root(broker: BrokerSettings) -> bool:
    return Path(broker.root).samefile("/")


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
