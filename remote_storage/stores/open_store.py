"""From a URI to its store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import MissingExtraError, UsageError

_KNOWN = "s3://bucket/prefix, file:///directory, or a path"


def open_store(uri: str, settings: S3Settings | None = None) -> ObjectStore:
    """The store below `uri`: `s3://bucket/prefix`, `file:///directory` or a path; nothing is asked of it yet.

    The path of the URI is a folder, with or without a `/` at its end.

    Raises:
        UsageError: another scheme, no bucket, or a file URI with a host.
        MissingExtraError: S3 without boto3.
    """
    if "://" not in uri:
        if not uri or uri.startswith(("s3:", "file:")):
            raise UsageError(f"{uri!r} is no place for objects", hint=f"known are {_KNOWN}")
        return DirectoryStore(Path(uri).expanduser().absolute())
    parts = urlsplit(uri)
    if parts.scheme == "s3":
        return _open_s3(uri, settings or S3Settings())
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path:
            raise UsageError(f"{uri}: a file URI has three slashes: file:///directory", hint=f"known are {_KNOWN}")
        return DirectoryStore(Path(unquote(parts.path)))
    other = " (write s3a:// and s3n:// as s3://)" if parts.scheme in {"s3a", "s3n"} else ""
    raise UsageError(f"{uri}: no store has the scheme {parts.scheme}://", hint=f"known are {_KNOWN}{other}")


def _open_s3(uri: str, settings: S3Settings) -> ObjectStore:
    # Not urlsplit: `?` and `#` are letters of a key.
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    prefix = path.rstrip("/") + "/" if path.strip("/") else ""
    if not bucket:
        raise UsageError(f"{uri}: no bucket", hint=f"known are {_KNOWN}")
    try:
        from tiersnap.remote_storage.stores.s3_store import S3Store
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"boto3", "botocore"}:
            raise
        raise MissingExtraError(f"{uri}: S3 needs boto3", hint="pip install 'tiersnap[s3]'") from error
    return S3Store(bucket, prefix.lstrip("/"), settings)
