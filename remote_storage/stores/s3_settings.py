"""The settings of an S3 server. Credentials are not among them; boto3 finds those."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tiersnap.snapshot.errors import UsageError

MIB = 1 << 20
ENDPOINT_HINT = "an endpoint looks like https://host:9000"
MIN_PART_SIZE = 5 * MIB
MAX_PARTS = 10_000


class Checksums(StrEnum):
    """The checksums that prove that bytes arrived.

    AWS: our own CRC-32C with every object, stored by the server and compared after each write and read.
    COMPAT: Content-MD5 with every request and no newer header, for servers that refuse x-amz-checksum-*.
    """

    AWS = "aws"
    COMPAT = "compat"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings of the S3 client; hashable, so that a process creates one client for each."""

    endpoint_url: str | None = None  # None for AWS
    region: str | None = None
    profile: str | None = None  # of the AWS configuration files, None for the default chain
    path_style: bool = False  # bucket in the path and not in the host name; most servers other than AWS need it
    checksums: Checksums = Checksums.AWS
    connect_timeout: float = 5.0  # seconds
    read_timeout: float = 30.0  # seconds without a byte from the server
    # Seconds for one request with its retries; a body adds its time at 256 KiB/s.
    call_timeout: float = 60.0
    total_attempts: int = 5  # of one request, the first included
    part_size: int = 16 * MIB  # bytes of a multipart part; a smaller object is sent in a single put
    max_concurrency: int = 4  # parts under way at once; an upload holds one part more than that in memory

    def __post_init__(self) -> None:
        if self.part_size < MIN_PART_SIZE:
            raise UsageError(f"part size {self.part_size}: S3 takes no parts below {MIN_PART_SIZE} bytes")
        if self.max_concurrency < 1 or self.total_attempts < 1:
            raise UsageError("max_concurrency and total_attempts must be at least 1")
        if min(self.connect_timeout, self.read_timeout, self.call_timeout) <= 0:
            raise UsageError("connect_timeout, read_timeout and call_timeout must be positive seconds")
        scheme, separator, address = (self.endpoint_url or "").partition("://")
        if separator and scheme.lower() not in ("http", "https"):
            raise UsageError(f"{scheme}:// is no S3 server", hint=ENDPOINT_HINT)
        if "@" in address.partition("/")[0]:
            raise UsageError(
                "the endpoint URL has a user or a password in it, which would be shown in logs and errors",
                hint="take it out of the URL, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            )

    @property
    def words(self) -> list[str]:
        """Return the options of a command line that give these settings, without defaults."""
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
        """Return these settings, with endpoint, region and path style filled in from `others`."""
        return replace(
            self,
            endpoint_url=self.endpoint_url or others.endpoint_url,
            region=self.region or others.region,
            path_style=self.path_style or others.path_style,
        )

    def part_size_for(self, size: int) -> int:
        """Return the bytes of a part of an object of `size` bytes: S3 accepts at most 10,000 parts."""
        return max(self.part_size, -(-size // MAX_PARTS))
