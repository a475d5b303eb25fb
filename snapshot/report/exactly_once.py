"""The data of lost.html and failover.html: lost and duplicate records, and the snapshots that a failover would use.

Counts are complete, but only the worst rows are kept. Offsets are inclusive. Snapshot offsets are exclusive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.members import members
from tiersnap.snapshot.report.run_info import Size

if TYPE_CHECKING:
    from tiersnap.snapshot.log.log_dir import Partition

MOST_ROWS = 200
# The harm of an audit's findings, worst first. Other harms are sorted after these.
HARMS = {
    "LOSS": "the log lacks records that it had before, or that were acknowledged",
    "DUPLICATE": "readers get records twice",
    "FENCING": "the log has a batch of a fenced producer, or a marker of a fenced coordinator",
    "TRANSACTION": "a transaction contains records that do not belong to it",
    "NONE": "nothing was lost or doubled",
}
_RANKS = {harm: rank for rank, harm in enumerate(HARMS)}
NO_FILE = "NONE"
# The effect of the newest snapshot on a broker that starts, by verdict, worst first.
MEETS = {
    SnapshotVerdict.SUSPECT: "The newest snapshot file contradicts the log. If the broker starts, it loads this "
    "file and answers some producers wrongly.",
    SnapshotVerdict.CORRUPT: "The newest snapshot file cannot be read. If the broker starts, it deletes this file "
    "and loads the previous one.",
    SnapshotVerdict.UNVERIFIED: "The newest snapshot file was not compared with the log.",
    SnapshotVerdict.NOT_COMPARED: "The newest snapshot file was not compared: the log begins in remote storage, "
    "which was not read.",
    NO_FILE: "The partition has no snapshot file. If the broker starts, it replays the whole log.",
    SnapshotVerdict.EXTENDS: "The newest snapshot file agrees with the log, and also has producers from before the "
    "log start.",
    SnapshotVerdict.MATCHES: "The newest snapshot file agrees with the log. If the broker starts, it has every "
    "producer.",
}


@dataclass(frozen=True, slots=True)
class AuditCount:
    """The number of findings of one kind, and of the batches that they affect."""

    harm: str
    kind: str
    judgement: str
    findings: int
    batches: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A finding of the audit. Unknown values are None.

    `before_last_offset` is the last offset of the earlier one of the two compared batches.
    """

    harm: str
    kind: str
    judgement: str
    topic: str
    partition: int
    producer_id: int | None = None
    before_last_offset: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """The newest audit. `counts` has all findings, worst first; `rows` has the worst findings."""

    counts: tuple[AuditCount, ...]
    rows: tuple[AuditRow, ...]

    @classmethod
    def of(cls, counts: Iterable[AuditCount], rows: Iterable[AuditRow]) -> Audit:
        """Return an audit.

        Args:
            counts: one count per combination of harm, kind and judgement.
            rows: at least the MOST_ROWS worst findings.
        """
        found = sorted(
            counts, key=lambda each: (_RANKS.get(each.harm, len(HARMS)), -each.findings, each.kind, each.judgement)
        )
        shown = sorted(
            rows, key=lambda row: (_RANKS.get(row.harm, len(HARMS)), row.topic, row.partition, row.first_offset or 0)
        )
        return cls(tuple(found), tuple(shown[:MOST_ROWS]))

    @property
    def harmful(self) -> int:
        """Return the number of findings whose harm is not NONE."""
        return sum(each.findings for each in self.counts if each.harm != "NONE")


@dataclass(frozen=True, slots=True)
class NewestSnapshot:
    """The strict comparison of a partition's newest snapshot file with the log.

    Attributes:
        offset: snapshot offset (exclusive); None if the partition has no file.
        found: a SnapshotVerdict, or NO_FILE.
        lacking: number of producers that only the log has.
        differing: number of producers that differ between file and log.
        unexplained: number of producers that only the file has.
        says: explanation of the verdict in words.
    """

    log_dir: str
    topic: str
    partition: int
    offset: int | None
    found: str
    lacking: int = 0
    differing: int = 0
    unexplained: int = 0
    says: str = ""


@dataclass(frozen=True, slots=True)
class Failover:
    """The newest snapshots of all partitions. `counts` are by verdict, worst first; `rows` are the worst snapshots."""

    counts: Mapping[str, int]
    rows: tuple[NewestSnapshot, ...]

    @classmethod
    def of(cls, snapshots: Iterable[NewestSnapshot]) -> Failover:
        """Return the counts and the MOST_ROWS worst snapshots."""
        order = [str(each) for each in MEETS]

        def badness(each: NewestSnapshot) -> tuple[int, int, str, int]:
            return order.index(each.found), -each.lacking - each.differing, each.topic, each.partition

        ranked = sorted(snapshots, key=badness)
        counted = Counter(each.found for each in ranked)
        counts = {name: counted[name] for name in order if counted[name]}
        return cls(counts, tuple(ranked[:MOST_ROWS]))


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """The data of lost.html and failover.html. A part is None if it was not read."""

    audit: Audit | None = None
    failover: Failover | None = None


@dataclass(frozen=True, kw_only=True)
class _Replica:
    topic: str
    log_dir: str
    partition: Size


@dataclass(frozen=True, kw_only=True)
class ReplicaWithoutProducers(LostProducers, _Replica):
    """A replica that lost active producers.

    Attributes:
        lead: log directory of the replica that has most of the lost producers; None if no other replica was examined.
    """

    lead: str | None = None

    @classmethod
    def of(cls, log_dir: str, partition: Partition, lost: LostProducers) -> ReplicaWithoutProducers:
        """Return a partition's replica with its lost producers."""
        return cls(topic=partition.topic, log_dir=log_dir, partition=partition.partition, **members(lost))
