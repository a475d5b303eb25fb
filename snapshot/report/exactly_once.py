"""The data of the pages about exactly-once: lost and doubled records, and the snapshots that a failover would use.

Counts are complete; only the worst rows are kept. Offsets are inclusive, except a snapshot's own, which is exclusive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.snapshot.exactly_once.simulate.kinds import Forgotten
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.members import members
from tiersnap.snapshot.report.run_info import Size

if TYPE_CHECKING:
    from tiersnap.snapshot.log.log_dir import Partition

MOST_ROWS = 200
# The harm of an audit's findings, worst first; unknown words sort last.
HARMS = {
    "LOSS": "records are missing that were in the log or acknowledged",
    "DUPLICATE": "readers get records twice",
    "FENCING": "a fenced producer's batch or a fenced coordinator's marker was appended",
    "TRANSACTION": "a transaction holds records that do not belong to it",
    "NONE": "nothing was lost or doubled",
}
NO_FILE = "NONE"
# The effect of the newest snapshot on a broker that starts, worst first.
MEETS = {
    SnapshotVerdict.SUSPECT: "The newest file contradicts the log. A broker that starts loads it, and gives some "
    "producers wrong answers.",
    SnapshotVerdict.CORRUPT: "The newest file cannot be read. A broker that starts deletes it and loads the one "
    "before.",
    SnapshotVerdict.UNVERIFIED: "The newest file was not compared with the log.",
    SnapshotVerdict.NOT_COMPARED: "The newest file was not compared: the log begins in remote storage, which was not "
    "read.",
    NO_FILE: "There is no file. A broker that starts replays its whole log.",
    SnapshotVerdict.EXTENDS: "The newest file agrees with the log, and has more from before the log begins.",
    SnapshotVerdict.MATCHES: "The newest file agrees with the log. A broker that starts knows every producer.",
}


@dataclass(frozen=True, slots=True)
class AuditCount:
    """Findings of one kind, and the number of batches that they concern."""

    harm: str
    kind: str
    judgement: str
    findings: int
    batches: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One finding, with None for unknown values; `before_last_offset` belongs to the earlier batch."""

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
    """The newest audit: counts worst first, and the worst findings."""

    counts: tuple[AuditCount, ...]
    rows: tuple[AuditRow, ...]

    @classmethod
    def of(cls, counts: Iterable[AuditCount], rows: Iterable[AuditRow]) -> Audit:
        """Return an audit. `counts` has each combination once, and `rows` has at least the worst findings."""
        harms = list(HARMS)

        def badness(harm: str) -> int:
            return harms.index(harm) if harm in harms else len(harms)

        found = sorted(counts, key=lambda each: (badness(each.harm), -each.findings, each.kind, each.judgement))
        shown = sorted(rows, key=lambda row: (badness(row.harm), row.topic, row.partition, row.first_offset or 0))
        return cls(tuple(found), tuple(shown[:MOST_ROWS]))

    @property
    def harmful(self) -> int:
        """Return the number of findings with a harm."""
        return sum(each.findings for each in self.counts if each.harm != "NONE")


@dataclass(frozen=True, slots=True)
class NewestSnapshot:
    """The strict comparison of a partition's newest snapshot file with the log; counts are producers.

    Attributes:
        offset: exclusive; None without a file.
        found: a SnapshotVerdict, or NO_FILE.
        lacking: only in the log.
        differing: in both, with different values.
        unexplained: only in the file.
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
    """The newest snapshots of all partitions: counts by kind, worst first, and the worst snapshots."""

    counts: Mapping[str, int]
    rows: tuple[NewestSnapshot, ...]

    @classmethod
    def of(cls, snapshots: Iterable[NewestSnapshot]) -> Failover:
        """Return the counts and the worst of all partitions."""
        order = [str(each) for each in MEETS]
        ranked = sorted(
            snapshots,
            key=lambda each: (order.index(each.found), -each.lacking - each.differing, each.topic, each.partition),
        )
        counted = Counter(each.found for each in ranked)
        counts = {name: counted[name] for name in order if counted[name]}
        return cls(counts, tuple(ranked[:MOST_ROWS]))


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """The audit and the newest snapshots; None if they were not read."""

    audit: Audit | None = None
    failover: Failover | None = None


@dataclass(frozen=True, kw_only=True)
class _Replica:
    topic: str
    log_dir: str
    partition: Size


@dataclass(frozen=True, kw_only=True)
class ForgetfulReplica(Forgotten, _Replica):
    """A replica that lost living producers.

    Attributes:
        lead: log directory of the replica that knows most lost producers; None if no other replica was examined.
    """

    lead: str | None = None

    @classmethod
    def of(cls, log_dir: str, partition: Partition, lost: Forgotten) -> ForgetfulReplica:
        """Return the replica of a partition in a log directory."""
        return cls(topic=partition.topic, log_dir=log_dir, partition=partition.partition, **members(lost))
