"""Words that brokers with tiered storage write to their logs. No broker sends them to a producer."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.explain.situations import ExplainedRow
from tiersnap.snapshot.exactly_once.models.decision_table import Row, read_table
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, newest_known

_FIRST = (3, 6)  # the first release with tiered storage


@dataclass(frozen=True, slots=True)
class BrokerWord:
    """A word or phrase in a broker's log, with its explanation."""

    name: str
    other: str  # exception or error with the same meaning; "" if there is none
    request: str
    when: str
    does: str
    command: str  # the next command for the operator

    def has_name(self, word: str) -> bool:
        """Return whether `word` contains `name`, or is the exception `other`, with or without a Java package."""
        last = word.rpartition(".")[2].lower()
        return self.name.lower() in word.lower() or (bool(self.other) and last == self.other.lower())

    def row(self) -> ExplainedRow:
        """Return the word as a row of an explanation."""
        releases = f"3.6-{newest_known(BROKER_ERAS)}"
        return ExplainedRow("broker", releases, "KIP-405", None, self.request, self.name, self.when, None, self.does)


def _word(row: Row) -> BrokerWord:
    other, request = row["other"].strip("-"), row["request"].strip("-")
    return BrokerWord(row["name"], other, request, row["when"], row["does"], row["next"])


_TABLE = read_table("""
 name | other | request | when | does | next
 producerStateSnapshotFile | NullPointerException | - | \
the next segment has no producer snapshot at its end | \
throws a NullPointerException, tries again, and uploads no segment of the partition | tiersnap doctor
 OFFSET_MOVED_TO_TIERED_STORAGE | OffsetMovedToTieredStorageException | Fetch | \
a follower asks for an offset that only remote storage of the leader has | \
the follower restores leader epochs and the producer snapshot from remote storage, and replicates later records | \
tiersnap verify
 segmentLeaderEpochs | - | - | \
leader-epoch-checkpoint has no leader epoch of the next segment, as after a power loss | \
fails before it writes a record, with "segmentLeaderEpochs can not be null or empty"; tries again, and uploads no \
segment of the partition | tiersnap doctor
 RemoteStorageException | - | - | \
the storage manager cannot write or read remote storage | \
fails the attempt and tries again; a consumer gets an error, and the upload of a segment starts again | tiersnap doctor
 RemoteResourceNotFoundException | - | Fetch | \
an object of a tiered segment is missing | \
gives the consumer an error for each offset of the segment | tiersnap doctor
 Error building remote log auxiliary state | - | Fetch | \
a replica restores leader epochs and producers from remote storage, but an object that it needs is missing | \
logs the error again and again, and does not join the ISR | tiersnap runbook 'Objects that are lost or damaged'
 Unknown broker error | - | Fetch | \
a remote segment's index does not match the segment, as after a power loss before the upload | \
gives the consumer an error at the beginning of the segment | tiersnap runbook 'A damaged index'
""")
BROKER_WORDS = tuple(map(_word, _TABLE))


def find_word(word: str) -> BrokerWord | None:
    """Return the entry of BROKER_WORDS for a word or a log line, None if there is none."""
    for each in BROKER_WORDS:
        if each.has_name(word):
            return each
    return None


def rows_of(word: BrokerWord, broker: str | None) -> tuple[ExplainedRow, ...]:
    """Return the rows that explain a word. If the release `broker` has no tiered storage, return no rows."""
    if broker is not None and tuple(map(int, broker.split(".")))[:2] < _FIRST:
        return ()
    return (word.row(),)
