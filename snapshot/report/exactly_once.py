"""The data of the pages about exactly-once: lost and doubled records, and what a fail-over would meet.

Counts are complete; of rows the few worst are held. Offsets are inclusive but for a snapshot's own, which is exclusive.
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
# Harm that an audit finds, worst first; what it calls otherwise comes behind.
HARMS = {
    "LOSS": "records are gone that were there, or that their producer took for written",
    "DUPLICATE": "readers get records twice",
    "FENCING": "a fenced producer's batch or a fenced coordinator's marker was appended",
    "TRANSACTION": "a transaction holds what is not its own",
    "NONE": "nothing was lost or doubled",
}
NO_FILE = "NONE"
# What a broker makes of the newest snapshot beside its log, worst first.
MEETS = {
    SnapshotVerdict.SUSPECT: "The newest file contradicts the log: a broker that starts loads it, and answers some "
    "producers wrongly.",
    SnapshotVerdict.UNVERIFIED: "The newest file was not compared with the log.",
    SnapshotVerdict.NOT_COMPARED: "The newest file was not compared: the log begins in remote storage, which was not "
    "asked.",
    SnapshotVerdict.CORRUPT: "The newest file cannot be read: a broker that starts deletes it and takes the one "
    "before.",
    NO_FILE: "No file: a broker that starts replays the whole log that it has, and knows what that log says.",
    SnapshotVerdict.EXTENDS: "The newest file says what the log says, and more from before the log begins.",
    SnapshotVerdict.MATCHES: "The newest file says what the log says: a broker that starts knows every producer.",
}


@dataclass(frozen=True, slots=True)
class AuditCount:
    """Findings of one kind; `batches` is what they stand for."""

    harm: str
    kind: str
    judgement: str
    findings: int
    batches: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One finding; None where the audit does not say. `before_` is the batch that the finding is about."""

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
        """Return an audit of all counts, each combination once, and of findings among which are the worst."""
        harms = list(HARMS)

        def badness(harm: str) -> int:
            return harms.index(harm) if harm in harms else len(harms)

        found = sorted(counts, key=lambda each: (badness(each.harm), -each.findings, each.kind, each.judgement))
        shown = sorted(rows, key=lambda row: (badness(row.harm), row.topic, row.partition, row.first_offset or 0))
        return cls(tuple(found), tuple(shown[:MOST_ROWS]))

    @property
    def harmful(self) -> int:
        """Findings that say that something was lost, doubled, or written by whom it should not."""
        return sum(each.findings for each in self.counts if each.harm != "NONE")


@dataclass(frozen=True, slots=True)
class NewestSnapshot:
    """The newest snapshot file of a partition, as a strict comparison found it; counts are producers.

    Attributes:
        offset: exclusive; None where there is no file.
        found: a SnapshotVerdict, or NO_FILE.
        lacking: in the log and not in the file.
        differing: in both with other values.
        unexplained: in the file only.
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
    """The newest snapshots of all partitions: how many of each kind, worst first, and the worst of them."""

    counts: Mapping[str, int]
    rows: tuple[NewestSnapshot, ...]

    @classmethod
    def of(cls, snapshots: Iterable[NewestSnapshot]) -> Failover:
        """Count every partition once."""
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
    """Both; None where nobody looked."""

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
        lead: log directory of the replica that knows most of them; None if no other replica was examined.
    """

    lead: str | None = None

    @classmethod
    def of(cls, log_dir: str, partition: Partition, lost: Forgotten) -> ForgetfulReplica:
        """Return it by what was found of a partition in a log directory."""
        return cls(topic=partition.topic, log_dir=log_dir, partition=partition.partition, **members(lost))
