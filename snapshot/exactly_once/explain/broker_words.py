"""Words in the logs of brokers with tiered storage that are not answers to producers."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.explain.situations import ExplainedRow
from tiersnap.snapshot.exactly_once.models.decision_table import read_table
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, newest_known

_FIRST = (3, 6)  # the first release with tiered storage


@dataclass(frozen=True, slots=True)
class BrokerWord:
    """A word of a broker's log."""

    name: str
    other: str  # the exception or error with the same meaning; "" without one
    request: str
    when: str
    does: str
    command: str  # the next command to run

    def has_name(self, word: str) -> bool:
        """Return whether the word is one of its names, with or without a Java package, or a log line with `name`."""
        last = word.rpartition(".")[2].lower()
        return self.name.lower() in word.lower() or (bool(self.other) and last == self.other.lower())

    def row(self) -> ExplainedRow:
        """Return the row that explains the word."""
        releases = f"3.6-{newest_known(BROKER_ERAS)}"
        return ExplainedRow("broker", releases, "KIP-405", None, self.request, self.name, self.when, None, self.does)


BROKER_WORDS = tuple(
    BrokerWord(row["name"], row["other"].strip("-"), row["request"].strip("-"), row["when"], row["does"], row["next"])
    for row in read_table("""
 name | other | request | when | does | next
 producerStateSnapshotFile | NullPointerException | - | \
the segment that comes next has no producer snapshot at its end | \
throws a NullPointerException, tries again, and tiers nothing more of the partition | tiersnap doctor
 OFFSET_MOVED_TO_TIERED_STORAGE | OffsetMovedToTieredStorageException | Fetch | \
a follower asks for an offset that the leader has in remote storage alone | \
the follower restores leader epochs and the producer snapshot from remote storage, and replicates what follows | \
tiersnap verify
 segmentLeaderEpochs | - | - | \
leader-epoch-checkpoint names no leader epoch of the segment that comes next, as after a power loss | \
fails before it writes a record, with "segmentLeaderEpochs can not be null or empty"; tries again, and tiers nothing \
more of the partition | tiersnap doctor
 RemoteStorageException | - | - | \
the storage manager cannot write or read remote storage | \
fails the attempt and tries again; a consumer gets an error, and the copy of a segment begins anew | tiersnap doctor
 RemoteResourceNotFoundException | - | Fetch | \
an object of a segment that brokers know is missing | \
gives the consumer an error for each offset of the segment | tiersnap doctor
 Error building remote log auxiliary state | - | Fetch | \
a replica restores leader epochs and producers from remote storage, and an object that it needs is missing | \
logs it again and again, and does not join the ISR | tiersnap runbook 'Objects that are lost or damaged'
 Unknown broker error | - | Fetch | \
a remote segment's index does not agree with the segment, as after a power loss before the copy | \
gives the consumer an error at the beginning of the segment | tiersnap runbook 'A damaged index'
""")
)


def find_word(word: str) -> BrokerWord | None:
    """Return the word of a broker's log; None for any other word."""
    return next((each for each in BROKER_WORDS if each.has_name(word)), None)


def rows_of(word: BrokerWord, broker: str | None) -> tuple[ExplainedRow, ...]:
    """Return the rows that explain the word; none if the release `broker` has no tiered storage."""
    has_tiers = broker is None or tuple(map(int, broker.split(".")))[:2] >= _FIRST
    return (word.row(),) if has_tiers else ()
