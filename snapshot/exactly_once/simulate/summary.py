"""What would happen if this replica became leader now, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.broker_eras import BrokerEra
from tiersnap.snapshot.exactly_once.simulate.kinds import Write
from tiersnap.snapshot.exactly_once.simulate.what_if import WriteClass
from tiersnap.snapshot.units import count_of


@dataclass(slots=True)
class Tally:
    """Counts over partitions for brokers of one era.

    Attributes:
        producers: alive on the leader, in each partition.
        unknown: of these, not known to the replica.
        doubled: last batches that would be appended a second time if they were sent again.
        doubled_older: likewise of the batches before them.
        refused: next batches in sequence that would be refused, and the leader would take.
        unrecognized: batches sent again that would be refused, and the leader would acknowledge once more.
        zombies: first writes of fenced instances that would be taken, and the leader would refuse.
    """

    era: BrokerEra
    producers: int = 0
    unknown: int = 0
    doubled: int = 0
    doubled_older: int = 0
    refused: int = 0
    unrecognized: int = 0
    zombies: int = 0

    def add(self, classes: Iterable[WriteClass]) -> None:
        """Count the classes of one partition."""
        for each in classes:
            count = int(each.members.size)
            leader, replica = each.leader_answers[self.era.name], each.replica_answers[self.era.name]
            if each.write.is_retry and leader is Answer.DUPLICATE_ACK and replica.is_error:
                self.unrecognized += count
            if each.write is Write.NEXT:
                self.producers += count
                self.unknown += 0 if each.is_known else count
                self.refused += count if leader.appends and not replica.appends else 0
            elif each.write is Write.RETRY_OF_LAST:
                self.doubled += count if each.doubles(self.era) else 0
            elif each.write.is_retry:
                self.doubled_older += count if each.doubles(self.era) else 0
            elif each.write is Write.ZOMBIE_EPOCH:
                self.zombies += count if replica.appends and not leader.appends else 0

    def sentence(self) -> str:
        """Return what would happen if this replica became leader now."""
        if not self.producers:
            return "If this replica became leader now, nobody would notice: no producer is alive."
        parts = []
        if self.unknown:
            parts.append(f"it would not know {self.unknown} of {count_of(self.producers, 'producer')}")
        else:
            parts.append(f"it would know all of {count_of(self.producers, 'producer')}")
        if self.doubled:
            parts.append(f"append the last batch of {self.doubled} a second time if it was sent again")
        if self.doubled_older:
            parts.append(f"append {count_of(self.doubled_older, 'older batch', 'older batches')} likewise")
        if not (self.doubled or self.doubled_older):
            parts.append("append nothing twice")
        if self.refused:
            parts.append(f"refuse the next batch of {self.refused}")
        if self.unrecognized:
            parts.append(
                f"refuse {count_of(self.unrecognized, 'batch', 'batches')} that the leader would acknowledge again"
            )
        if self.zombies:
            parts.append(f"let {count_of(self.zombies, 'fenced instance')} write")
        *most, last = parts
        return f"If this replica became leader now, {', '.join(most)}, and {last} (brokers {self.era.releases})."


# The counts of a Tally, which add up over partitions.
TALLIED = tuple(each.name for each in fields(Tally) if each.name != "era")
