"""JSON of the commands that reach remote storage or a cluster, without Spark.

tier, publish, unblock, mend, install, restore, fetch, expire and maintain remove-orphans. Offsets named `end` or `next`
are exclusive; bytes are bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from tiersnap.jobs.contracts.log_dir import ByName, ForPeople, MissingRemoteSegment
from tiersnap.remote_storage.cluster.freeing import End
from tiersnap.remote_storage.cluster.location_proof import EvidenceKind
from tiersnap.remote_storage.cluster.mend import MendAction, MendOutcome
from tiersnap.remote_storage.restore.install_plan import InstallOutcome
from tiersnap.remote_storage.restore.plan import RestoreAction
from tiersnap.remote_storage.retire.expire_plan import ExpireAction
from tiersnap.remote_storage.retire.orphans import Fate, OrphanKind
from tiersnap.remote_storage.retire.retention import Breach
from tiersnap.snapshot.replay.trust import Provenance

PlaceSentence = Annotated[str, "why brokers are believed to read --remote"]
Encryptions = Annotated[
    dict[str, int], "partitions with something to tier by PLAIN, ENCRYPTED or UNKNOWN, as the plugin's manifests show"
]
Leftovers = Annotated[dict[str, int], "removed `objects` of segments, `probes`, `files` and `uploads`, by kind"]
LeaderEpochs = Annotated[list[list[int]], "pairs of leader epoch and start offset"]


class TieredPartition(TypedDict):
    """A partition of `tier`."""

    log_dir: str
    partition: str
    segments: int
    tiered: int
    verdicts: ByName
    findings: int


class TierSummary(TypedDict):
    """What `tier` did; `bytes_tiered` are of segment files."""

    run_id: str
    snapshots_written: int
    snapshots_mended: Annotated[int, "of those written, how many took the place of a damaged object"]
    segments_tiered: int
    bytes_tiered: int
    leftovers_removed: Leftovers
    encryption: Encryptions
    report: NotRequired[str]


class PublishedPartition(TypedDict):
    """A partition of `publish`: segments by what is told of them."""

    topic: str
    topic_id: str | None
    partition: int
    metadata_partition: int
    publish: int
    finish: int
    known: int
    others: str
    refused: Annotated[str, 'type of the error that refused it, or ""']
    reason: str
    hint: str


class PublishSummary(TypedDict):
    """All partitions; the place is absent where there is nothing to publish."""

    segments: int
    records_published: int
    place: NotRequired[PlaceSentence]
    place_evidence: NotRequired[EvidenceKind]


class FreedPartition(TypedDict):
    """A stuck partition of `unblock`."""

    topic: str
    partition: int
    remote_ends_at: int
    attempts: int
    tier: int
    publish: int
    outcome: End
    reason: str
    hint: str


class UnblockSummary(TypedDict):
    """Absent where nothing was stuck."""

    run_id: NotRequired[str]
    segments_tiered: NotRequired[int]
    snapshots_mended: NotRequired[int]
    place: NotRequired[PlaceSentence]
    place_evidence: NotRequired[EvidenceKind]


class MendedSegment(MissingRemoteSegment):
    """A segment of `mend` that brokers know and whose objects were missing."""

    action: MendAction
    outcome: MendOutcome
    reason: Annotated[str, 'why it failed, or ""']


class MendSummary(TypedDict):
    """All segments; the place is absent where nothing is missing."""

    known: Annotated[int, "segments that brokers know and read"]
    missing: int
    mended: int
    place: NotRequired[PlaceSentence]
    place_evidence: NotRequired[EvidenceKind]


class InstalledSnapshot(TypedDict):
    """A snapshot of `install` that is not as it should be; those that are right are counted only."""

    partition: str
    offset: int
    action: InstallOutcome
    producers: int | None
    provenance: Provenance | None
    run_id: str | None
    reason: str


class RestoredTransaction(TypedDict):
    """A transaction without an end in a restored log."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class LeftOutCopy(TypedDict):
    """A copy that is not used."""

    segment_id: str
    start_offset: int
    end_offset: int | None
    reason: str


class RestoredPartition(TypedDict):
    """A partition of `restore`; what only the log can tell is null in a plan."""

    partition: str
    topic_id: str
    cluster_id: str | None
    topic_is_checked: bool
    action: RestoreAction
    is_done: bool
    segments: int
    bytes: int
    size: ForPeople
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    leader_epochs: LeaderEpochs
    producer_state: str
    producers: int | None
    largest_producer_id: int | None
    snapshots: int | None
    rebuilt_snapshots: list[int] | None
    transaction_indexes: int | None
    open_transactions: int
    transactions: list[RestoredTransaction]
    doubts: list[str] | None
    left_out: list[LeftOutCopy]


class RestoredSegment(TypedDict):
    """A segment of `restore --segments`, or a copy that is left out."""

    partition: str
    base_offset: int
    next_base_offset: int | None
    bytes: int | None
    segment_id: str
    action: str


class FetchedCopy(TypedDict):
    """A copy that holds the offset of `fetch`."""

    partition: str
    topic_id: str | None
    base_offset: int
    next_base_offset: int
    bytes: int
    segment_id: str
    leader_epochs: LeaderEpochs
    taken: str
    key: str
    file: NotRequired[str]


class ExpiredSegment(TypedDict):
    """A segment of `expire` that retention has passed."""

    topic: str
    topic_id: str | None
    partition: int
    segment_id: str
    base_offset: int
    next_base_offset: int
    max_timestamp: Annotated[int | None, "ms; null where its deletion began in an earlier run"]
    bytes: Annotated[int, "of all its objects"]
    size: ForPeople
    breach: Breach
    action: ExpireAction
    state: Literal["COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"]
    reason: Annotated[str, "why it is still there"]
    keys: list[str]


class UnexpiredPartition(TypedDict):
    """A partition of which `expire` deletes nothing, whatever its age."""

    topic: str
    topic_id: str | None
    partition: int
    action: ExpireAction
    reason: str


class ExpireSummary(TypedDict):
    """`bytes` of the segments that go, or went."""

    partitions: ByName
    segments: int
    deleted: int
    bytes: int
    leftovers: Annotated[int, "objects that ended attempts left, and that go, or went"]
    leftovers_removed: Leftovers


class OrphanRow(TypedDict):
    """What `maintain remove-orphans` found and does with it."""

    topic: str
    topic_id: str | None
    partition: int | None
    kind: OrphanKind
    action: Fate
    objects: int
    bytes: int
    size: ForPeople
    name: str
    reason: str
    keys: list[str]


class OrphansSummary(TypedDict):
    """`bytes` of all that is to be removed."""

    orphans: ByName
    removed: int
    bytes: int
    younger: Annotated[int, "objects that are too young to be removed now"]
    younger_removable_at: Annotated[int | None, "ms, by the store's clock: when the last of them may be removed"]
