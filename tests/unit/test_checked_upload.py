"""What was decoded is what is uploaded: every way in which a segment can be another one is found before it is seen."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.flaky_store import FlakyStore
from tests.reference.fleet_run import Runner
from tests.reference.planned import write_log
from tests.s3.segments import attempt, log_bytes, make_segment, source
from tiersnap.remote_storage.errors import CorruptSegmentError, SegmentChangedError
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.upload.send_objects import copy_segment
from tiersnap.remote_storage.upload.snapshot_source import SourceFile
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.segment_scan import SegmentScan

pytestmark = pytest.mark.unit

LAYOUTS = [AivenLayout(), LocalTieredStorageLayout()]
NAME = "00000000000000001000"


@pytest.fixture(params=LAYOUTS, ids=["aiven", "local"])
def layout(request):
    return request.param


def with_log(segment, change):
    """Another content of the same size in the log file, after the scan."""
    path = Path(segment.log.path)
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def flip(position):
    def change(content):
        content[position] ^= 1

    return change


@pytest.mark.parametrize("position", [0, 8, 16, 20, 30, 70, 5_000, -1])
def test_a_flipped_bit_anywhere_in_a_batch_is_corrupt_and_nothing_is_left(tmp_path, store, layout, position):
    segment = make_segment(tmp_path / "log")
    with_log(segment, flip(position))
    with pytest.raises(CorruptSegmentError) as raised:
        copy_segment(RemoteLocation(store, layout), segment, attempt(segment))
    assert "dump" in raised.value.hint
    assert list(store.list()) == []
    assert list(store.unfinished_uploads()) == []


def test_a_log_that_was_cut_and_filled_up_with_zeros_is_corrupt(tmp_path, store, layout):
    segment = make_segment(tmp_path / "log")

    def cut(content):
        content[7_000:] = bytes(len(content) - 7_000)

    with_log(segment, cut)
    with pytest.raises(CorruptSegmentError):
        copy_segment(RemoteLocation(store, layout), segment, attempt(segment))
    assert list(store.list()) == []


def test_batches_of_the_next_segment_are_not_part_of_this_one(tmp_path, store, layout):
    segment = make_segment(tmp_path / "log", end=1500)
    path = tmp_path / "log" / f"{NAME}.log"
    path.write_bytes(log_bytes(1000, 2000, segment.log.size))
    with pytest.raises(CorruptSegmentError, match="last offset"):
        copy_segment(RemoteLocation(store, layout), segment, attempt(segment))
    assert list(store.list()) == []


@pytest.mark.parametrize("position", [12, 15])
def test_a_flipped_bit_that_no_crc_covers_shows_in_the_digest_of_the_decode(tmp_path, store, layout, position):
    """The leader epoch of a batch lies before what its CRC covers: a broker writes it when it appends."""
    segment = make_segment(tmp_path / "log")
    decoded = replace(segment, header_digest=digest_of(segment))
    copy_segment(RemoteLocation(store, layout), decoded, attempt(decoded))
    before = {info.key for info in store.list()}
    with_log(segment, flip(position))
    with pytest.raises(SegmentChangedError, match="the segment changed since tiersnap decoded it"):
        copy_segment(RemoteLocation(store, layout), decoded, attempt(decoded))
    assert {info.key for info in store.list()} == before


def digest_of(segment) -> str:
    scan = SegmentScan(LOCAL, segment.log.path, base_offset=1000, next_base_offset=2000)
    assert sum(rows.size for rows in scan) == 10
    return scan.end.digest


def test_a_log_that_was_written_anew_after_the_decode_is_not_sent(tmp_path, store, layout):
    segment = make_segment(tmp_path / "log")
    decoded = replace(segment, header_digest=digest_of(segment))
    (tmp_path / "log" / f"{NAME}.log").write_bytes(log_bytes(1000, 2000, segment.log.size, seed=1))
    with pytest.raises(SegmentChangedError):
        copy_segment(RemoteLocation(store, layout), decoded, attempt(decoded))
    assert list(store.list()) == []


@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "flipped", "garbage behind", "gone since the scan"])
def test_wrong_indexes_are_made_again_for_the_upload(tmp_path, store, layout, damage):
    segment = make_segment(tmp_path / "log", with_transactions=True, log_size=60_000)
    good = segment.found_indexes()
    assert good.transaction_index
    rng, changes = random.Random(damage), {}
    for name, suffix in (("offset_index", "index"), ("time_index", "timeindex"), ("transaction_index", "txnindex")):
        content = getattr(good, name)
        path = tmp_path / "log" / f"{NAME}.{suffix}"
        flipped = bytearray(content)
        flipped[rng.randrange(2, len(content))] ^= 1 << rng.randrange(8)
        changes[name] = {
            "missing": lambda: None,
            "empty": lambda path=path: source(path, b""),
            "zeros": lambda path=path, content=content: source(path, bytes(len(content))),
            "flipped": lambda path=path, flipped=flipped: source(path, bytes(flipped)),
            "garbage behind": lambda path=path, content=content: source(path, content + b"\1" * len(content)),
            "gone since the scan": lambda path=path, name=name: path.unlink() or getattr(segment, name),
        }[damage]()
    broken = replace(segment, **changes)
    copy = attempt(broken)
    result = copy_segment(RemoteLocation(store, layout), broken, copy)
    assert set(result.rebuilt_indexes) == {"offset index", "time index", "transaction index"}
    assert layout.fetch_index(store, copy, IndexType.OFFSET) == good.offset_index
    assert layout.fetch_index(store, copy, IndexType.TIMESTAMP) == good.time_index
    assert layout.fetch_index(store, copy, IndexType.TRANSACTION) == good.transaction_index


def test_right_indexes_are_sent_as_they_are(tmp_path, store, layout):
    segment = make_segment(tmp_path / "log", with_transactions=True, log_size=60_000)
    copy = attempt(segment)
    assert copy_segment(RemoteLocation(store, layout), segment, copy).rebuilt_indexes == {}
    assert layout.fetch_index(store, copy, IndexType.OFFSET) == segment.offset_index.read()


def test_nothing_becomes_visible_when_the_last_look_says_no(tmp_path, store, layout):
    segment = make_segment(tmp_path / "log")
    seen = []

    def refuse():
        seen.extend(info.key for info in store.list())
        raise TransientError("the claim is lost")

    with pytest.raises(TransientError, match="claim"):
        copy_segment(RemoteLocation(store, layout), segment, attempt(segment), before_visible=refuse)
    assert seen
    assert not any(key.endswith((".rsm-manifest", ".snapshot")) for key in seen)
    assert list(store.list()) == []


def test_a_run_does_not_tier_with_a_snapshot_object_that_was_overwritten_since_it_was_computed(tmp_path):
    """The CRC that the table has of it is compared; an empty snapshot is readable and would fence nobody."""
    write_log(tmp_path / "logs")
    runner = Runner(tmp_path, tmp_path / "logs")

    class Overwritten(FlakyStore):
        def get(self, key, *, limit=None):
            data = super().get(key, limit=limit)
            return bytes.fromhex("000148674bc700000000") if "snapshots/" in key and key.endswith(".snapshot") else data

    outcome = runner(store=Overwritten(runner.store, {}))
    assert outcome.segments_uploaded == 0
    assert "the snapshot that tiersnap computed or compared had CRC" in outcome.errors[0]
    assert not any(key.endswith(".log") for key in runner.objects())


def test_a_source_that_cannot_be_read_is_named_and_not_the_object(store):
    """The kernel answers EIO to whoever reads the first page of its own memory; the error named the remote file."""
    source_file = SourceFile(LOCAL, "/proc/self/mem", 10)
    with pytest.raises(TransientError, match=r"^/proc/self/mem: .*Input/output error"), source_file.open() as file:
        store.put_file_if_absent("key", file, 10)
    assert list(store.unfinished_uploads()) == []
