"""The loops of the fold against the readable reference: compiled, or as plain Python (NUMBA_DISABLE_JIT=1)."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from tests.reference import fold as reference
from tests.reference.random_log import Writer
from tests.reference.record_batch import Batch, read_segment
from tiersnap.snapshot.formats.record_batch import RECORD_BATCH_DTYPE
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.kernels import fold as kernels
from tiersnap.snapshot.producer_fold import DELTA_DTYPE

pytestmark = [pytest.mark.unit, pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")]


def records(size: int, dtype: np.dtype) -> np.ndarray:
    """An array whose elements have attributes also where nothing is compiled."""
    return np.zeros(size, np.dtype((np.record, dtype)))


class Table:
    """Slots and deltas as ProducerFold keeps them, two at first."""

    def __init__(self) -> None:
        self.slots, self.deltas, self.count = np.full(4, kernels.EMPTY_SLOT, np.int32), records(2, DELTA_DTYPE), 0

    def grow(self) -> None:
        grown = records(self.deltas.size * 2, DELTA_DTYPE)
        grown[: self.count] = self.deltas[: self.count]
        self.deltas, self.slots = grown, np.zeros(grown.size * 2, np.int32)
        kernels.rehash(self.slots, self.deltas, self.count)

    def add(self, kernel, rows, size: int) -> list[int]:
        """Feeds a kernel until it is done; the errors that it named."""
        row, errors = 0, []
        while True:
            row, self.count, *error = kernel(self.slots, self.deltas, self.count, rows, row)
            errors += [each for each in error if each >= 0]
            if row == size:
                return errors
            self.grow()

    def state(self) -> reference.State:
        out = records(self.count, ENTRY_DTYPE)
        kernels.write_entries(self.deltas, np.arange(self.count), out)
        return {row[0]: reference.Entry(*row[1:]) for row in out.tolist()}


def rows_of(batches: list[Batch]) -> np.ndarray:
    rows = records(len(batches), RECORD_BATCH_DTYPE)
    for i, batch in enumerate(batches):
        rows[i] = astuple(batch)
    return rows


def delta_of(batches: list[Batch]) -> np.ndarray:
    table, rows = Table(), rows_of(batches)
    table.add(kernels.add_batches, rows, rows.size)
    return table.deltas[: table.count].copy()


def random_batches(seed: int, *, refused: bool) -> list[Batch]:
    chance = Random(seed)
    writer = Writer(chance)
    entries = []
    for _ in range(chance.randrange(1, 60)):
        entries.append(writer.entry())
        if refused and chance.random() < 0.1:
            writer.opened.clear()  # what follows may be a batch that a broker refuses
    return read_segment(b"".join(entries)).batches


def test_deltas_of_pieces_combine_to_the_state_of_the_whole() -> None:
    for seed in range(80):
        batches = random_batches(seed, refused=False)
        cuts = sorted({0, len(batches), *(Random(seed).randrange(len(batches) + 1) for _ in range(3))})
        table = Table()
        for start, stop in pairwise(cuts):
            piece = delta_of(batches[start:stop])
            table.add(kernels.add_deltas, piece, piece.size)
        assert table.state() == reference.fold(batches), f"seed {seed}"


def combined(*pieces: np.ndarray) -> np.ndarray:
    """The deltas of the pieces one after the other, by producer."""
    table = Table()
    for piece in pieces:
        table.add(kernels.add_deltas, piece, piece.size)
    return np.sort(table.deltas[: table.count], order="producer_id")


@pytest.mark.parametrize("refused", [False, True])
def test_a_delta_is_the_same_however_its_pieces_are_grouped(refused: bool) -> None:
    for seed in range(60):
        batches = random_batches(seed, refused=refused)
        first, second = sorted(Random(seed).randrange(len(batches) + 1) for _ in range(2))
        a, b, c = (delta_of(piece) for piece in (batches[:first], batches[first:second], batches[second:]))
        whole = combined(delta_of(batches))
        assert (combined(a, b, c) == whole).all(), f"seed {seed}"
        assert (combined(a, combined(b, c)) == whole).all(), f"seed {seed}"
        assert whole.size == len({batch.producer_id for batch in batches if batch.producer_id >= 0})


def test_a_marker_of_another_epoch_leaves_nothing_of_the_batch_before_it() -> None:
    rows = records(2, RECORD_BATCH_DTYPE)
    rows["producer_id"], rows["record_count"], rows["last_offset_delta"] = 7, 1, [3, 0]
    rows["attributes"], rows["control_type"], rows["producer_epoch"] = [0x10, 0x30], [-1, 1], [0, 1]
    table = Table()
    table.add(kernels.add_batches, rows, 2)
    unknown = {"last_sequence": -1, "last_offset": -1, "offset_delta": 0, "txn_first_offset": -1, "error_offset": -1}
    assert {name: table.deltas[0][name].item() for name in unknown} == unknown
    table = Table()
    table.add(kernels.add_batches, rows[1:], 1)
    assert {name: table.deltas[0][name].item() for name in unknown} == unknown


def first_refused(batches: list[Batch]) -> int:
    refused = []
    for producer_id in {batch.producer_id for batch in batches}:
        try:
            reference.fold(batch for batch in batches if batch.producer_id == producer_id)
        except reference.InvalidTxnStateError as error:
            refused.append(error.args[0])
    return min(refused, default=-1)


def test_the_first_of_all_refused_batches_is_named_wherever_the_pieces_end() -> None:
    named = 0
    for seed in range(150):
        batches = random_batches(seed, refused=True)
        cuts = sorted({0, len(batches), *(Random(seed).randrange(len(batches) + 1) for _ in range(3))})
        table, errors = Table(), []
        for start, stop in pairwise(cuts):
            piece = delta_of(batches[start:stop])
            errors += table.add(kernels.add_deltas, piece, piece.size)
        expected = first_refused(batches)
        assert min(errors, default=-1) == expected, f"seed {seed}"
        named += expected >= 0
    assert named > 50


@pytest.mark.parametrize("first", [5, 9])
def test_of_two_producers_refused_in_one_combine_the_lower_offset_is_named(first: int) -> None:
    opened, refused = records(2, DELTA_DTYPE), records(2, DELTA_DTYPE)
    for deltas in (opened, refused):
        deltas["producer_id"] = [1, 2]
        for name in ("txn_first_offset", "plain_offset", "error_offset"):
            deltas[name] = -1
    opened["txn_first_offset"] = [0, 2]
    refused["plain_offset"] = [first, 14 - first]
    table = Table()
    assert table.add(kernels.add_deltas, opened, 2) == []
    assert table.add(kernels.add_deltas, refused, 2) == [5]


def test_an_element_is_a_view_of_the_table_also_when_many_producers_share_a_slot() -> None:
    table = Table()
    rows = records(500, RECORD_BATCH_DTYPE)
    rows["producer_id"] = np.arange(500) * 2**32
    rows["base_offset"] = np.arange(500)
    table.add(kernels.add_batches, rows, rows.size)
    table.add(kernels.add_batches, rows, rows.size)
    assert table.count == 500
    assert {key: entry.last_offset for key, entry in table.state().items()} == {i * 2**32: i for i in range(500)}


def test_a_control_record_of_another_type_makes_the_producer_known_and_changes_nothing() -> None:
    """As no broker writes it: KRaft's own control records have no producer id."""
    rows = records(1, RECORD_BATCH_DTYPE)
    rows[0]["producer_id"], rows[0]["attributes"], rows[0]["record_count"], rows[0]["control_type"] = 7, 0x20, 1, 2
    table = Table()
    table.add(kernels.add_batches, rows, 1)
    assert table.state() == {7: reference.Entry()}
