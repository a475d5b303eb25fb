"""Open the store of a URI."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.errors import MissingExtraError, SourceNotFoundError, UsageError
from tiersnap.snapshot.installed import with_extra
from tiersnap.snapshot.log.places import refuse_unsupported
from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir

SCHEMES = ("s3", "file")
"""Schemes of the stores. All stores have conditional writes."""
_KNOWN = "s3://bucket/prefix, file:///directory, /directory, ./directory or ~/directory"
_PATH = re.compile(r"(/|~|\.{1,2}(/|$)).*", re.DOTALL)


def open_store(uri: str, settings: StoreSettings | None = None, *, writes: bool = True) -> ObjectStore:
    """Return the store at `uri`: `s3://bucket/prefix`, `file:///directory` or a path. No request is made.

    The path of the URI is a folder, with or without a `/` at its end. A path must begin with `/`, `./`, `../` or `~`:
    otherwise tiersnap would create a folder if the user forgets `s3://`.

    Args:
        writes: False if the caller only reads. The store then creates no file in a directory.

    Raises:
        UsageError: the scheme is unknown or not supported yet, the bucket is missing, a file URI has a host, the path
            is a file, or the URI contains credentials. The message does not repeat credentials.
        LogDirAsTargetError: the folder is a broker's log directory, or is inside one.
        MissingExtraError: `uri` is in S3, and boto3 is not installed.
    """
    refuse_unsupported(uri, hint=f"possible locations: {_KNOWN}")
    if not _PATH.fullmatch(uri) and _has_credentials(uri):
        raise UsageError(
            "the remote location has a user or a password before the @, which would appear in logs and errors",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and give s3://bucket/prefix",
        )
    if "\0" in uri:
        raise UsageError(f"{uri!r} is not a remote location", hint=f"possible locations: {_KNOWN}")
    if "://" not in uri:
        return _open_path(uri, writes=writes)
    scheme, _, rest = uri.partition("://")
    if scheme == "s3":
        return _open_s3(uri, (settings or StoreSettings()).s3)
    if scheme == "file":
        if not rest.startswith(("/", "localhost/")):
            raise UsageError(
                f"{uri}: a file URI has three slashes, such as file:///directory", hint=f"possible locations: {_KNOWN}"
            )
        return _open_directory(Path(unquote(rest.removeprefix("localhost"))), writes=writes)
    other = " (write s3a:// and s3n:// as s3://)" if scheme in {"s3a", "s3n"} else ""
    raise UsageError(
        f"{uri}: tiersnap supports no store with the scheme {scheme}://", hint=f"possible locations: {_KNOWN}{other}"
    )


def open_existing_store(uri: str, settings: StoreSettings | None = None, *, writes: bool = True) -> ObjectStore:
    """Return the store at `uri` for reading or deleting objects. A directory must exist. See `open_store` for `writes`.

    Raises:
        SourceNotFoundError: the directory does not exist.
        UsageError, LogDirAsTargetError, MissingExtraError: see `open_store`.
    """
    store = open_store(uri, settings, writes=writes)
    if isinstance(store, DirectoryStore) and not store.root.is_dir():
        raise SourceNotFoundError(f"{uri}: no such directory", hint="give the remote location that has the segments")
    return store


def _has_credentials(uri: str) -> bool:
    """Return whether a URI contains `user@host` or `user:secret@host`. The secret may contain `/`, as in AWS."""
    rest = uri.partition("://")[2] or uri
    authority = rest.partition("/")[0]
    return "@" in authority or (":" in authority and "@" in rest)


def _open_path(text: str, *, writes: bool) -> ObjectStore:
    if not _PATH.fullmatch(text):
        meant = "" if not text or ":" in text else f": did you mean s3://{text}, or ./{text}?"
        raise UsageError(
            f"{text!r} is not a remote location{meant}",
            hint=f"a path begins with /, ./, ../ or ~; the possible locations are {_KNOWN}",
        )
    try:
        return _open_directory(Path(text).expanduser().absolute(), writes=writes)
    except RuntimeError as error:  # an unknown user, as in ~nobody
        raise UsageError(f"{text!r}: {error}", hint=f"possible locations: {_KNOWN}") from error


def _open_directory(path: Path, *, writes: bool) -> ObjectStore:
    refuse_log_dir(path, "the place for objects")
    if path.is_file():
        raise UsageError(f"{path}: a file, not a directory", hint=f"possible locations: {_KNOWN}")
    return DirectoryStore(path, is_only_read=not writes)


def _open_s3(uri: str, settings: S3Settings) -> ObjectStore:
    # urlsplit would cut the key at `?` and `#`.
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    prefix = path.rstrip("/") + "/" if path.strip("/") else ""
    if not bucket:
        raise UsageError(f"{uri}: no bucket", hint=f"possible locations: {_KNOWN}")
    try:
        from tiersnap.remote_storage.stores.s3_store import S3Store
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"boto3", "botocore"}:
            raise
        raise MissingExtraError(
            f"{uri}: the Python package boto3, which S3 needs, is not installed", hint=with_extra("s3")
        ) from error
    return S3Store(bucket, prefix.lstrip("/"), settings)
