"""The state at the edge of a scan window, and what is said of the boundaries before it.

The segments before the window are not decoded, but for those that a producer has to be followed back into, which are
read here and now. At their ends a snapshot holds what cannot have expired: the transactions that are open there. Where
the log goes back further in remote storage, that is asked what came before the first file, if a producer leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition, Segment
from tiersnap.snapshot.replay.found_snapshot import ReadSnapshot, found_at
from tiersnap.snapshot.replay.partition_state import Boundary, StartState
from tiersnap.snapshot.replay.scan_window import FirstSeen, FollowedBack
from tiersnap.snapshot.replay.segment_fold import fold_segment
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict
from tiersnap.snapshot.replay.trust import Comparison

_UNVERIFIED = Comparison(SnapshotVerdict.UNVERIFIED, "not compared: it lies before the window that was scanned")


class WindowStart:
    """Where the replay of a partition begins that is scanned within the expiration.

    Attributes:
        state: of the producers that the window shows in part, at its first offset.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        partition: Partition,
        offset: int,
        decodes: Iterable[tuple[int, np.ndarray]],
        *,
        is_continued: bool,
        before: Callable[[], StartState | None],
    ) -> None:
        """Find what the window shows in part, and follow it back.

        Args:
            offset: base offset of the window's first segment.
            decodes: (base offset, deltas) of the runs of the window's segments, ascending.
            is_continued: the log goes back further in remote storage.
            before: asks for the state where the files begin, None where nobody knows it.

        Raises:
            CorruptDataError: a segment before the window is damaged, and a producer has to be followed through it.
        """
        self._filesystem, self._partition, self._offset = filesystem, partition, offset
        self._ask_before, self._has_before = before, False
        first = FirstSeen()
        for base_offset, deltas in decodes:
            first.add(base_offset, deltas)
        producers = [
            producer_id
            for base_offset, found in first.transactional.items()
            for producer_id in self._not_new(base_offset, found)
        ]
        self._followed = FollowedBack(producers, self._older())
        is_unknown = is_continued and not self._has_before and self._followed.reached_beginning
        self._provenance = Provenance.COMPUTED_FROM_LOCAL_START if is_unknown else Provenance.COMPUTED_WITHIN_WINDOW
        self.state = StartState(offset, self._followed.deltas, offset, has_adopted=False, lacks_start=is_unknown)

    def boundaries(self, offsets: Iterable[int], read_snapshot: ReadSnapshot) -> Iterator[Boundary]:
        """What is said of these boundaries up to the window's first offset, ascending."""
        ends = sorted(offset for offset in offsets if offset <= self._offset)
        for end, entries in self._followed.open_entries(ends):
            found = found_at(end, read_snapshot)
            yield Boundary(
                end,
                partial(_itself, entries),
                self._provenance,
                found.comparison if found.entries is None else _UNVERIFIED,
                self._offset,
                open_transactions=None,
                file=found.file,
            )

    def _older(self) -> Iterator[tuple[int, np.ndarray]]:
        for segment in reversed(self._partition.segments):
            if segment.base_offset < self._offset:
                runs, end = fold_segment(self._filesystem, segment)
                if end.finding is not None:
                    raise CorruptDataError(
                        f"producers cannot be followed back beyond the window: {end.finding}",
                        hint="tiersnap scan LOGDIR says what is damaged; --scan exact stops at it",
                        at="",
                    )
                yield segment.base_offset, runs[0].deltas
        if (before := self._ask_before()) is not None:
            self._has_before = True
            yield before.offset - 1, before.deltas

    def _not_new(self, base_offset: int, producers: list[int]) -> Iterator[int]:
        """Those that may have been there before: sequence 0 of epoch 0 is the first batch of any producer id."""
        wanted, is_new = np.unique(producers), dict[int, bool]()

        def look(rows: np.ndarray) -> None:
            mine = rows.compress(np.isin(rows["producer_id"], wanted))
            found, first = np.unique(mine["producer_id"], return_index=True)
            begins = (mine["producer_epoch"][first] == 0) & (mine["base_sequence"][first] == 0)
            for producer_id, begins_here in zip(found.tolist(), begins.tolist(), strict=True):
                is_new.setdefault(producer_id, begins_here)

        fold_segment(self._filesystem, self._segment(base_offset), check_crc=False, on_rows=look)
        return (producer_id for producer_id in producers if not is_new.get(producer_id, False))

    def _segment(self, base_offset: int) -> Segment:
        return next(each for each in self._partition.segments if each.base_offset == base_offset)


def _itself(entries: np.ndarray) -> np.ndarray:
    return entries
