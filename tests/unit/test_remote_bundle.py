import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.s3.segments import EPOCHS, attempt, make_segment, snapshot_bytes, source, trusted
from tiersnap.remote_storage.errors import SnapshotChangedError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.metadata.segment_metadata import epochs_in_range, without_empty
from tiersnap.remote_storage.upload.bundle import SegmentBundle
from tiersnap.remote_storage.upload.snapshot_source import SourceFile, TrustedSnapshot
from tiersnap.snapshot.errors import (
    CorruptSnapshotError,
    IncompleteBundleError,
    MissingProducerSnapshotError,
    TransientError,
    UnfinishedError,
)
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.log.file_system import LocalFileSystem
from tiersnap.snapshot.repair.index_check import CheckedIndexes

pytestmark = pytest.mark.unit

EMPTY = bytes.fromhex("000148674bc700000000")


@pytest.fixture
def parts(tmp_path) -> dict[str, object]:
    return {
        "base_offset": 1000,
        "next_base_offset": 2000,
        "max_timestamp": 1_700_000_000_000,
        "log": source(tmp_path / "log", b"x" * 100),
        "leader_epochs": EPOCHS,
        "producer_snapshot": trusted(2000),
    }


def test_a_bundle_with_everything_is_built_and_can_be_sent(parts):
    bundle = SegmentBundle(**parts)
    assert bundle.transaction_index is None
    assert pickle.loads(pickle.dumps(bundle)) == bundle


@pytest.mark.parametrize("offset", [1000, 1999, 2001])
def test_a_snapshot_of_another_offset_is_refused_with_both_numbers(parts, offset):
    with pytest.raises(MissingProducerSnapshotError, match=rf"2000.*{offset}"):
        SegmentBundle(**parts | {"producer_snapshot": trusted(offset)})


@pytest.mark.parametrize("epochs", [(), ((5, 2000),), ((0, 0), (0, 1500)), ((3, 1200), (4, 1100))])
def test_leader_epochs_must_cover_the_segment_and_ascend(parts, epochs):
    with pytest.raises(IncompleteBundleError, match="leader epochs"):
        SegmentBundle(**parts | {"leader_epochs": epochs})


def test_the_gate_cannot_be_walked_around_through_the_constructor(parts):
    for part in ("log", "leader_epochs", "producer_snapshot"):
        with pytest.raises(TypeError, match=part):
            SegmentBundle(**{name: given for name, given in parts.items() if name != part})
    with pytest.raises(MissingProducerSnapshotError):
        SegmentBundle(**parts | {"leader_epochs": EPOCHS[:3], "producer_snapshot": trusted(1000)})


def test_the_first_segment_of_a_log_is_a_segment(parts):
    assert SegmentBundle(**parts | {"base_offset": 0, "leader_epochs": [(0, 0)]}).base_offset == 0
    with pytest.raises(IncompleteBundleError, match="log"):
        SegmentBundle(**parts | {"base_offset": -1, "leader_epochs": [(0, 0)]})


def test_an_empty_log_and_an_empty_range_are_refused(parts, tmp_path):
    with pytest.raises(IncompleteBundleError, match="log"):
        SegmentBundle(**parts | {"log": source(tmp_path / "empty", b"")})
    with pytest.raises(IncompleteBundleError, match="log"):
        SegmentBundle(**parts | {"base_offset": 2000})


def test_the_lineage_has_the_epochs_that_began_before_the_next_base_offset(parts):
    bundle = SegmentBundle(**parts)
    contents = bundle.index_contents(CheckedIndexes(b"", bytes(12), None, {}))
    assert contents[IndexType.LEADER_EPOCH] == b"0\n3\n0 0\n3 500\n4 1500\n"
    assert IndexType.TRANSACTION not in contents
    assert bundle.segment_leader_epochs == ((3, 1000), (4, 1500))


def test_the_first_epoch_of_a_segment_is_clamped_to_its_base():
    assert epochs_in_range([(0, 0)], 100, 200) == ((0, 100),)
    assert epochs_in_range([(0, 0), (1, 100), (2, 200)], 100, 200) == ((1, 100),)
    assert epochs_in_range([(0, 150)], 100, 200) == ((0, 150),)
    assert epochs_in_range([(0, 200)], 100, 200) == ()


def test_an_epoch_that_begins_at_the_next_base_offset_is_the_next_segments(parts):
    bundle = SegmentBundle(**parts | {"leader_epochs": ((0, 0), (7, 2000), (8, 2500))})
    assert bundle.leader_epochs == ((0, 0),)
    assert bundle.segment_leader_epochs == ((0, 1000),)


def test_an_epoch_under_which_nothing_was_written_is_left_out_as_a_broker_leaves_it_out(parts):
    """LeaderEpochFileCache drops it when it assigns the next: no record of it can be in any segment."""
    epochs = ((0, 0), (1, 1000), (2, 1000), (3, 1500), (5, 1500), (6, 2000), (7, 2000))
    bundle = SegmentBundle(**parts | {"leader_epochs": epochs})
    assert bundle.leader_epochs == ((0, 0), (2, 1000), (5, 1500))
    assert bundle.segment_leader_epochs == ((2, 1000), (5, 1500))
    assert without_empty(()) == ()


class EpochCache:
    """LeaderEpochFileCache, step by step as reference and source have it: a map, assigned and truncated."""

    def __init__(self, checkpoint):
        self.epochs = []
        for epoch, start in checkpoint:
            latest = self.epochs[-1] if self.epochs else None
            if latest is None or latest[0] != epoch or start < latest[1]:
                while self.epochs and (self.epochs[-1][0] >= epoch or self.epochs[-1][1] >= start):
                    self.epochs.pop()
                self.epochs.append((epoch, start))

    def entries_in_range(self, start, end):
        entries = list(self.epochs)
        if start >= 0:
            removed = []
            while entries and entries[0][1] <= start:
                removed.append(entries.pop(0))
            if removed:
                entries.insert(0, (removed[-1][0], start))
        while entries and entries[-1][1] >= end:
            entries.pop()
        return tuple(entries)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20)), max_size=8),
    st.integers(0, 100),
    st.integers(1, 100),
)
def test_a_bundle_has_the_epochs_that_the_brokers_cache_would_give(steps, start, length):
    epochs, epoch, offset = [], -1, 0
    for epoch_step, offset_step in steps:
        epoch, offset = epoch + epoch_step, offset + offset_step
        epochs.append((epoch, offset))
    cache, end = EpochCache(epochs), start + length
    kept = without_empty(entry for entry in epochs if entry[1] < end)
    assert kept == cache.entries_in_range(-1, end)
    assert epochs_in_range(kept, start, end) == cache.entries_in_range(start, end)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20)), max_size=8),
    st.integers(0, 100),
    st.integers(1, 100),
)
def test_epochs_in_range_name_the_leader_of_every_offset(steps, start, length):
    epochs, epoch, offset = [], -1, -1
    for epoch_step, offset_step in steps:
        epoch, offset = epoch + epoch_step, offset + offset_step
        epochs.append((epoch, offset))

    def leader(entries, at):
        return max((entry for entry in entries if entry[1] <= at), default=(None, None))[0]

    found = epochs_in_range(epochs, start, start + length)
    assert all(start <= first < start + length for _, first in found)
    for at in range(start, start + length):
        assert leader(found, at) == leader(epochs, at)


def test_metadata_of_an_attempt_is_copy_segment_started(tmp_path):
    metadata = attempt(make_segment(tmp_path))
    assert (metadata.start_offset, metadata.end_offset, metadata.segment_size) == (1000, 1999, 10_000)
    assert metadata.segment_leader_epochs == ((3, 1000), (4, 1500))
    assert metadata.state.name == "COPY_SEGMENT_STARTED"


# --- trusted snapshots


def test_an_empty_snapshot_can_be_trusted_when_it_was_computed():
    assert TrustedSnapshot(5, EMPTY, Provenance.COMPUTED).entry_count == 0


@pytest.mark.parametrize("data", [b"", EMPTY[:-1], EMPTY + b"\0", b"\0\2" + EMPTY[2:], snapshot_bytes()[:-1] + b"\7"])
def test_bytes_that_a_broker_cannot_read_are_not_trusted(data):
    with pytest.raises(CorruptSnapshotError):
        TrustedSnapshot(1000, data, Provenance.COMPUTED)


@pytest.mark.parametrize("field", ["last_offset", "current_txn_first_offset"])
def test_a_snapshot_that_knows_its_own_offset_has_the_wrong_name(field):
    entries = np.zeros(1, ENTRY_DTYPE)
    entries[field] = 1000
    with pytest.raises(CorruptSnapshotError, match="offset 1000"):
        TrustedSnapshot(1000, snapshot_file.encode(entries), Provenance.COMPUTED)
    assert TrustedSnapshot(1001, snapshot_file.encode(entries), Provenance.COMPUTED).entry_count == 1


def test_a_snapshot_that_is_not_the_recorded_one_is_refused():
    good = snapshot_bytes()
    assert TrustedSnapshot(1000, good, Provenance.COMPUTED, crc32c=crc32c(good)).entry_count == 2
    for provenance, verdict in ((Provenance.COMPUTED, None), (Provenance.BROKER, SnapshotVerdict.MATCHES)):
        with pytest.raises(SnapshotChangedError, match="10 bytes") as raised:
            TrustedSnapshot(1000, EMPTY, provenance, verdict, crc32c=crc32c(good))
        assert raised.value.attrs["offset"] == 1000


@pytest.mark.parametrize("verdict", [None, *SnapshotVerdict])
def test_a_brokers_file_is_trusted_only_when_the_log_agrees(verdict):
    if verdict in {SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS}:
        assert TrustedSnapshot(1000, snapshot_bytes(), Provenance.BROKER, verdict).entry_count == 2
    else:
        with pytest.raises(MissingProducerSnapshotError, match="not trusted"):
            TrustedSnapshot(1000, snapshot_bytes(), Provenance.BROKER, verdict)


# --- source files


def test_a_source_that_grew_shrank_or_went_is_another_file(tmp_path):
    file = source(tmp_path / "log", b"0123456789")
    file.check_unchanged()
    assert file.read() == b"0123456789"
    for content in (b"0123456789+", b"012345678"):
        (tmp_path / "log").write_bytes(content)
        for look in (file.check_unchanged, file.read):
            with pytest.raises(TransientError, match="the file changed after the scan"):
                look()
    (tmp_path / "log").unlink()
    for look in (file.check_unchanged, file.read):
        with pytest.raises(TransientError, match="the file was deleted"):
            look()


def test_a_source_that_may_not_be_read_is_a_matter_of_permissions(tmp_path):
    class Forbidden(LocalFileSystem):
        def open(self, path):
            raise PermissionError(13, "Permission denied", path)

    file = SourceFile(Forbidden(), "/log", 1)
    with pytest.raises(UnfinishedError, match="cannot be read"):
        file.read()
