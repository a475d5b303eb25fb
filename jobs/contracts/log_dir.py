"""JSON of the commands that look at log directories: scan, verify, repair, collect, doctor.

Offsets named `end` or `next` are exclusive; times are ms since the epoch; bytes are bytes.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from tiersnap.jobs.contracts.envelope import FindingObject
from tiersnap.remote_storage.stores.probe_answer import ProbeVerdict
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.repair.plan import RepairAction
from tiersnap.snapshot.replay.trust import Provenance, SnapshotVerdict

ForPeople = Annotated[str, "the number before it, for people"]
ByName = Annotated[dict[str, int], "counts by name"]


class ScannedPartition(TypedDict):
    """A partition of `scan`."""

    log_dir: str
    partition: str
    topic: str
    topic_id: str | None
    segments: int
    bytes: int
    size: ForPeople
    log_start_offset: int
    deleted_segments: int
    log_end_offset: int | None
    high_watermark: int | None
    last_stable_offset: int | None
    snapshots: ByName
    verdicts: ByName
    findings: int


class ScannedSegment(TypedDict):
    """A segment of `scan --segments`, with the snapshot at its end."""

    log_dir: str
    partition: str
    base_offset: int
    next_base_offset: int | None
    bytes: int
    largest_timestamp: int | None
    verdict: Verdict
    snapshot: SnapshotVerdict | None
    snapshot_reason: str | None
    reason: str
    next_step: str


class VerifiedSnapshot(TypedDict):
    """A snapshot file of `verify`; entries are counted by how they differ from the log."""

    log_dir: str
    partition: str
    offset: int
    verdict: SnapshotVerdict
    reason: str
    lacking: int
    differing: int
    forgotten: int
    unexplained: int
    extending: int
    harmful_until: Annotated[int | None, "ms; up to then a broker would keep what the file lacks"]


class VerifySummary(TypedDict):
    """What was left out."""

    not_compared: Annotated[int, "files of logs that begin in remote storage, which was not asked: --remote"]


class PlannedRepair(TypedDict):
    """A snapshot of `repair` that is not as it should be; those that are right are counted only."""

    log_dir: str
    partition: str
    offset: int
    bytes: int
    action: RepairAction
    producers: int | None
    provenance: Provenance | None
    found: SnapshotVerdict
    reason: str


class CollectedPartition(TypedDict):
    """A partition of `collect`; numbers are null where it failed."""

    log_dir: str
    partition: str
    segments: int | None
    to_decode: int | None
    bytes_to_read: int | None
    to_read: Annotated[str | None, "bytes_to_read, for people"]
    snapshots: int | None
    gone: int | None
    error: str | None


class CollectSummary(TypedDict):
    """What was shipped with --apply, what would be without it."""

    segments_decoded: NotRequired[int]
    bytes_read: NotRequired[int]
    snapshots_shipped: NotRequired[int]
    segments_to_decode: NotRequired[int]
    bytes_to_read: NotRequired[int]
    snapshots_to_ship: NotRequired[int]


class ExaminedLogDir(TypedDict):
    """A log directory of `doctor`."""

    log_dir: str
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    is_clean: bool
    is_running: Annotated[bool | None, "null where this user cannot tell"]
    pid: int | None
    version: str | None
    mount: str
    disk_bytes: int
    free_bytes: int
    partitions: int
    segments: int
    bytes: int
    blocked: ByName
    blocked_bytes: int
    missing_snapshots: int
    lost_indexes: int
    continued: Annotated[int, "partitions whose log begins in remote storage"]


class AnsweredProbe(TypedDict):
    """What a store answered to `doctor --remote`."""

    probe: str
    verdict: ProbeVerdict
    message: str
    next_step: Annotated[str, '"" where there is nothing to do']


class MissingRemoteSegment(TypedDict):
    """A segment that brokers know and whose objects are not all in remote storage."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    base_offset: int
    next_base_offset: int
    bytes: int
    is_ours: Annotated[bool, "whether tiersnap published it"]
    lacking: Annotated[list[str], "suffixes of the objects that are missing"]


class RemoteRecords(TypedDict):
    """What records of a cluster say and remote storage lacks, the worst partition first."""

    known: Annotated[int, "segments that brokers know and read"]
    sentence: str
    place: Annotated[str, "whether brokers read there"]
    missing: list[MissingRemoteSegment]


class DoctorResult(TypedDict):
    """The host, and what comes next; `remote` is empty without --remote, `records` null without --bootstrap-server."""

    log_dirs: list[ExaminedLogDir]
    version: str
    remote: list[AnsweredProbe]
    records: RemoteRecords | None
    findings: list[FindingObject]
    next: list[str]
    check: str
