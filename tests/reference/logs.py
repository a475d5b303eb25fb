"""Hypothesis strategies for logs: what producers can leave in a partition, good and bad.

A log is a list of entries in offset order, each a function from its offset to bytes and the number of offsets it
takes. Few producers and small epochs, so that batches of one producer meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hypothesis import strategies as st

from tests.reference import log_builder
from tests.reference.fold import LARGEST_SEQUENCE
from tests.reference.log_builder import TIMESTAMP

DAY = 86_400_000


class Writer(Protocol):
    """Bytes of an entry at an offset."""

    def __call__(self, offset: int) -> bytes: ...


@dataclass(frozen=True)
class LogEntry:
    """An entry that can be placed at any offset."""

    length: int
    write: Writer
    text: str

    def __repr__(self) -> str:
        return self.text


producers = st.sampled_from([0, 1, 2, 7, 4_294_967_299])
epochs = st.integers(0, 3)
counts = st.integers(1, 4)
sequences = st.one_of(st.integers(0, 9), st.integers(LARGEST_SEQUENCE - 4, LARGEST_SEQUENCE), st.just(-1))
times = st.integers(TIMESTAMP - 3 * DAY, TIMESTAMP)


@st.composite
def data(draw: st.DrawFn, transactional: st.SearchStrategy[bool]) -> LogEntry:
    """A data batch; one in eight emptied by compaction."""
    count, producer, epoch = draw(counts), draw(producers), draw(epochs)
    sequence, in_transaction, time = draw(sequences), draw(transactional), draw(times)
    emptied = draw(st.integers(0, 7)) == 0
    make = log_builder.empty_batch if emptied else log_builder.data_batch
    return LogEntry(
        count,
        lambda offset: make(offset, count, producer, epoch, sequence, in_transaction, timestamp=time),
        f"data(pid={producer} e={epoch} seq={sequence} n={count} txn={in_transaction} empty={emptied})",
    )


@st.composite
def markers(draw: st.DrawFn) -> LogEntry:
    """A marker of either protocol, higher or lower epochs included."""
    producer, epoch, coordinator, commit = draw(producers), draw(epochs), draw(st.integers(0, 3)), draw(st.booleans())
    time = draw(times)
    return LogEntry(
        1,
        lambda offset: log_builder.marker(offset, producer, epoch, coordinator, commit, time),
        f"marker(pid={producer} e={epoch} ce={coordinator} commit={commit})",
    )


@st.composite
def empty_control(draw: st.DrawFn) -> LogEntry:
    """A marker that compaction emptied."""
    producer, epoch = draw(producers), draw(epochs)
    return LogEntry(
        1,
        lambda offset: log_builder.empty_batch(offset, 1, producer, epoch, transactional=True, control=True),
        f"empty_control(pid={producer} e={epoch})",
    )


plain = st.builds(
    lambda count: LogEntry(count, lambda offset: log_builder.data_batch(offset, count), f"plain(n={count})"), counts
)
kraft = st.just(LogEntry(1, log_builder.leader_change, "leader_change"))
legacy = st.sampled_from([0, 1]).map(
    lambda magic: LogEntry(1, lambda offset: log_builder.legacy_entry(offset, magic), f"legacy(magic={magic})")
)

# Everything a broker can replay or not; non-transactional batches meet open transactions.
any_entries = st.lists(
    st.one_of(data(st.booleans()), markers(), empty_control(), plain, kraft, legacy), min_size=1, max_size=40
)
# No non-transactional batch of a producer, hence nothing a broker refuses.
replayable_entries = st.lists(
    st.one_of(data(st.just(True)), markers(), empty_control(), plain, kraft, legacy), min_size=1, max_size=40
)


@dataclass(frozen=True)
class Log:
    """Entries laid out from offset `base`: their bytes, and the offset each begins at, gaps included."""

    base: int
    entries: tuple[tuple[int, bytes], ...]
    end: int

    def segment(self, start: int, stop: int) -> bytes:
        """The bytes of the entries with index [start, stop)."""
        return b"".join(data for _, data in self.entries[start:stop])

    @property
    def bytes(self) -> bytes:
        """All of it, as one segment."""
        return self.segment(0, len(self.entries))


@st.composite
def logs(draw: st.DrawFn, entries: st.SearchStrategy[list[LogEntry]] = any_entries) -> Log:
    """A log; offsets now and then jump, as they do after a compaction or a roll with an explicit offset."""
    offset = base = draw(st.sampled_from([0, 0, 100, 3_000_000_000]))
    laid: list[tuple[int, bytes]] = []
    for entry in draw(entries):
        offset += draw(st.sampled_from([0, 0, 0, 0, 3]))
        laid.append((offset, entry.write(offset)))
        offset += entry.length
    return Log(base, tuple(laid), offset)
