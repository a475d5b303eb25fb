"""The remote location as words of a command line."""

from __future__ import annotations

from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings

DEFAULT_LAYOUT = "aiven"


def location_words(uri: str, layout: str, s3: S3Settings) -> list[str]:
    """Return the value of --remote and the options by which the location is reached; defaults are left out."""
    found = [uri]
    found += [] if layout == DEFAULT_LAYOUT else ["--layout", layout]
    found += [] if s3.endpoint_url is None else ["--endpoint-url", s3.endpoint_url]
    found += [] if s3.region is None else ["--region", s3.region]
    found += ["--path-style"] if s3.path_style else []
    return [*found, "--checksums", s3.checksums.value] if s3.checksums is not Checksums.AWS else found
