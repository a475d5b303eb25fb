"""Resolve and normalize the paths and URIs of log directories and stores.

`/x`, `/x/`, `//x`, `/y/../x` and `file:///x` are the same location.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tiersnap.snapshot.errors import SourceNotFoundError, UsageError
from tiersnap.snapshot.log.file_system import FOLDER, LOCAL, Entry, FileSystem

_LOCAL_HOSTS = ("", "localhost")
_MOST_LISTED = 20  # entries that log_dir_below lists
_REASONS: dict[type, str] = {FileNotFoundError: "no such directory", NotADirectoryError: "the path is not a directory"}
_NOT_YET = {
    "gs": "Google Cloud Storage",
    "abfs": "Azure Data Lake Storage",
    "abfss": "Azure Data Lake Storage",
    "wasb": "Azure Blob Storage",
    "wasbs": "Azure Blob Storage",
}


def resolve(uri: str) -> tuple[FileSystem, str]:
    """Return the file system and the path for a URI or a local path.

    Raises:
        SourceNotFoundError: the scheme is unknown, the file system cannot be reached, or the path is not UTF-8.
        UsageError: the URI's cloud is not supported.
    """
    local = place_of(uri) if uri.startswith("file:") else uri
    if "://" not in local and not local.startswith("file:"):
        path = Path(local).expanduser().absolute().as_posix()
        if not _is_utf8(path):
            raise SourceNotFoundError(
                f"{path!a}: the name of the folder is not UTF-8",
                hint="create a symbolic link with a UTF-8 name to the folder, and give the path of the link",
            )
        return LOCAL, path
    hint = "use a path, file:///…, s3://bucket/… or hdfs://…"
    refuse_unsupported(uri, hint=hint)
    from pyarrow import fs

    from tiersnap.snapshot.log.arrow_file_system import ArrowFileSystem

    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise SourceNotFoundError(f"{uri}: {error}", hint=hint) from error
    return ArrowFileSystem(filesystem), path


def _is_utf8(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def located(uri: str) -> str:
    """Return the path or URI in a form that is valid in any process: an absolute path, or a URI without a trailing `/`.

    A file URI stays a URI, because Spark would resolve a plain path in its default file system.
    """
    if "://" in uri or uri.startswith("file:"):
        if uri.endswith(("?", "//")):
            return uri
        return uri.rstrip("/")
    # abspath resolves `..`, but keeps two leading slashes.
    return "/" + os.path.abspath(Path(uri).expanduser()).lstrip("/")  # noqa: PTH100


def refuse_unsupported(uri: str, *, hint: str) -> None:
    """Refuse a URI of a cloud that tiersnap does not support. The message omits the URI, which may contain a password.

    Raises:
        UsageError: the cloud is not supported.
    """
    scheme, separator, _ = uri.partition("://")
    if separator and scheme in _NOT_YET:
        raise UsageError(f"{scheme}://: {_NOT_YET[scheme]} is not supported yet", hint=hint)


def each_once(uris: Iterable[str]) -> tuple[str, ...]:
    """Return the URIs in order. If several URIs name the same location, return only the first of them.

    A symbolic link and its target are two locations.
    """
    found: dict[str, str] = {}
    for uri in uris:
        found.setdefault(place_of(uri), uri)
    return tuple(found.values())


def place_of(uri: str) -> str:
    """Return the canonical form of a path or URI. Symbolic links are not resolved.

    Tables store this form, so that a source has the same name in each run, however the user writes it.
    """
    name = located(uri)
    if not name.startswith("file:"):
        return name
    parts = urlsplit(name)
    if parts.netloc not in _LOCAL_HOSTS:
        return name
    return posixpath.normpath("/" + unquote(parts.path).lstrip("/"))


def places_of(uris: Iterable[str]) -> tuple[str, ...]:
    """Return `place_of` for each URI, in order, without duplicates."""
    return tuple(dict.fromkeys(map(place_of, uris)))


def unlisted(error: OSError) -> tuple[str, str]:
    """Return why a directory cannot be listed, and a hint."""
    reason = _REASONS.get(type(error)) or error.strerror or str(error)
    if isinstance(error, PermissionError):
        return reason, "run the command as the user that runs the broker"
    return reason, "give one directory in log.dirs of the broker's server.properties"


def without_partitions(folder: str, names: Collection[str], below: str | None) -> str:
    """Return a hint for a directory that has no partition folder.

    Args:
        folder: name of the directory.
        names: names of its entries.
        below: path of a log directory inside it, or None.
    """
    if not names:
        return "the directory is empty: is its disk mounted?"
    if any(name.endswith(".log") for name in names):
        return f"the directory is a single partition: give the folder above it, and --partition {folder}"
    if below:
        return f"the directory is not a log directory: give {below}"
    return "a log directory has folders named <topic>-<partition>: give one directory in log.dirs of server.properties"


def log_dir_below(
    filesystem: FileSystem, listing: Iterable[Entry], is_partition: Callable[[str], object]
) -> str | None:
    """Return the path of a log directory among the first 20 entries of a folder, or None."""
    for entry in islice(listing, _MOST_LISTED):
        with suppress(OSError):
            if entry.kind == FOLDER and any(is_partition(each.name) for each in filesystem.list_folder(entry.path)):
                return entry.path
    return None
