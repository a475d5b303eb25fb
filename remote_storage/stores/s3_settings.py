"""The settings of an S3 server, without credentials. boto3 finds the credentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tiersnap.snapshot.errors import UsageError

MIB = 1 << 20
ENDPOINT_HINT = "give an endpoint such as https://host:9000"
MIN_PART_SIZE = 5 * MIB
MAX_PARTS = 10_000


class Checksums(StrEnum):
    """The checksums that tiersnap sends with uploads.

    AWS: tiersnap sends a CRC-32C with every object. The server stores it, and tiersnap compares it after writes and
    reads.
    COMPAT: tiersnap sends Content-MD5 with every request, for servers that refuse the newer x-amz-checksum-* headers.
    """

    AWS = "aws"
    COMPAT = "compat"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings of the S3 client. Within a process, equal settings share one client."""

    endpoint_url: str | None = None  # None for AWS
    region: str | None = None
    profile: str | None = None  # of the AWS configuration files, None for the default chain
    path_style: bool = False  # bucket in the path, not in the host name; most servers other than AWS need this
    checksums: Checksums = Checksums.AWS
    connect_timeout: float = 5.0  # seconds
    read_timeout: float = 30.0  # seconds without a byte from the server
    # Seconds for one request and its retries. A body adds the time that it takes at 256 KiB/s.
    call_timeout: float = 60.0
    total_attempts: int = 5  # the first attempt and its retries
    part_size: int = 16 * MIB  # bytes of a multipart part; a smaller object is sent in a single put
    max_concurrency: int = 4  # parallel part uploads; memory of an upload is max_concurrency + 1 parts

    def __post_init__(self) -> None:
        if self.part_size < MIN_PART_SIZE:
            raise UsageError(f"part size {self.part_size}: too small: S3 accepts no parts below {MIN_PART_SIZE} bytes")
        if self.max_concurrency < 1 or self.total_attempts < 1:
            raise UsageError("max_concurrency and total_attempts must be at least 1")
        if min(self.connect_timeout, self.read_timeout, self.call_timeout) <= 0:
            raise UsageError("connect_timeout, read_timeout and call_timeout must be positive seconds")
        scheme, separator, address = (self.endpoint_url or "").partition("://")
        if separator and scheme.lower() not in ("http", "https"):
            raise UsageError(f"{scheme}:// is not the scheme of an S3 server", hint=ENDPOINT_HINT)
        if "@" in address.partition("/")[0]:
            raise UsageError(
                "the endpoint URL has a user or a password, which would appear in logs and errors",
                hint="remove it from the URL, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            )

    @property
    def words(self) -> list[str]:
        """Return the command-line options for these settings, without defaults."""
        found: list[str] = []
        if self.endpoint_url is not None:
            found += ["--endpoint-url", self.endpoint_url]
        if self.region is not None:
            found += ["--region", self.region]
        if self.path_style:
            found.append("--path-style")
        if self.checksums is not Checksums.AWS:
            found += ["--checksums", self.checksums.value]
        return found

    def or_else(self, others: S3Settings) -> S3Settings:
        """Return these settings. If endpoint, region or path style is unset, its value comes from `others`."""
        return replace(
            self,
            endpoint_url=self.endpoint_url or others.endpoint_url,
            region=self.region or others.region,
            path_style=self.path_style or others.path_style,
        )

    def part_size_for(self, size: int) -> int:
        """Return the part size in bytes for an object of `size` bytes. S3 accepts at most 10,000 parts."""
        return max(self.part_size, -(-size // MAX_PARTS))
