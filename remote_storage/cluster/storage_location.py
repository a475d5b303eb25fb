"""Where a storage manager keeps its objects, by the settings it was given, and whether that is where `--remote` is.

    class                                             settings (below rsm.config.)
    org.apache.kafka.…LocalTieredStorage              dir
    io.aiven.kafka.tieredstorage.RemoteStorageManager storage.backend.class and key.prefix, with
        …storage.s3.S3Storage                           storage.s3.bucket.name, storage.s3.endpoint.url
        …storage.filesystem.FileSystemStorage           storage.root

The plugin takes `key.prefix` as it is: `tiers` gives keys `tiersorders-…`, which are in no folder of that name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tiersnap.remote_storage.errors import WrongPlaceError
from tiersnap.snapshot.errors import UsageError

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


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """Where objects are.

    Attributes:
        layout: name of the layout.
        bucket: of S3; "" for a directory.
        prefix: what all keys begin with, as it is; of a directory what stands before every file's path.
        endpoint: of S3, as `endpoint_of` gives it; "" for a directory.
    """

    layout: str
    bucket: str
    prefix: str
    endpoint: str = ""

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
