"""The counts of objects that --apply would write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.units import count_of, human_bytes

_REQUESTS_OF_SEGMENT = 8  # without multipart uploads: claim, three objects, two checks, finish, one in reserve
_REQUESTS_OF_SNAPSHOT = 2
_REQUESTS_OF_PARTITION = 16  # the listings, the cluster id, the manifests
_REQUESTS_OF_RUN = 12  # the check of conditional writes, and the listings of leftovers


@dataclass(frozen=True, slots=True)
class TierPlan:
    """The counts of a tiering plan.

    Attributes:
        snapshots: number of computed snapshots to write.
        segments: number of segments to upload.
        log_bytes: bytes of the logs to upload, without indexes and snapshots.
        requests: upper bound of write and list requests, without retries.
    """

    snapshots: int = 0
    segments: int = 0
    log_bytes: int = 0
    requests: int = 0

    @classmethod
    def of(cls, sizes: Iterable[int], snapshots: int) -> TierPlan:
        """Return the plan of one partition. `sizes` are the bytes of each log to upload."""
        logs = list(sizes)
        if not logs and not snapshots:
            return cls()
        requests = _REQUESTS_OF_PARTITION + snapshots * _REQUESTS_OF_SNAPSHOT + sum(map(_requests_of, logs))
        return cls(snapshots, len(logs), sum(logs), requests)

    @classmethod
    def of_run(cls, partitions: Iterable[TierPlan]) -> TierPlan:
        """Return the plan of a run from the plans of its partitions."""
        found = sum(partitions, cls())
        if not found:
            return found
        return replace(found, requests=found.requests + _REQUESTS_OF_RUN)

    def __add__(self, other: TierPlan) -> TierPlan:
        return TierPlan(
            self.snapshots + other.snapshots,
            self.segments + other.segments,
            self.log_bytes + other.log_bytes,
            self.requests + other.requests,
        )

    def __bool__(self) -> bool:
        return bool(self.segments or self.snapshots)

    @property
    def sentence(self) -> str:
        """Return the plan as one line of output."""
        snapshots = ""
        if self.snapshots:
            snapshots = f", {count_of(self.snapshots, 'snapshot')} to write"
        size, requests = human_bytes(self.log_bytes), count_of(self.requests, "request")
        return f"plan: {count_of(self.segments, 'segment')} to upload, {size}{snapshots}: at most {requests}"


def _requests_of(size: int) -> int:
    """Return the number of requests for one segment. A large log is sent as a multipart upload."""
    settings = S3Settings()
    if size <= settings.part_size:
        return _REQUESTS_OF_SEGMENT
    return _REQUESTS_OF_SEGMENT + 2 - (-size // settings.part_size_for(size))
