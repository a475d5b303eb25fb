"""A clone of a log directory that was written on by itself: same ids, epochs, offsets and sizes, other bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.plugin_compressed import compress_copy
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

NOW = ("--now", "2026-11-21T13:00:00Z")


def write_clone(
    folder: Path,
    producer: int,
    *,
    indexes: bool = True,
    first: int = 0,
    epoch_start: int = 0,
    end: int = 40,
    rolled: tuple[int, ...] = (0, 10, 20, 30),
) -> Path:
    """A log whose batches from offset 10 on are of one of two producers; its segments begin at the offsets `rolled`."""
    segments = {0: [data_batch(0, 10, 7, 0, 0)]}
    for base in (10, 20, 30):
        segments[base] = [data_batch(base, 5, producer, 0, base - 10), data_batch(base + 5, 5, producer, 0, base - 5)]
    held: dict[int, list[bytes]] = {}
    for base in (each for each in segments if first <= each < end):
        held.setdefault(max(each for each in rolled if each <= base), []).extend(segments[base])
    epochs = [(0, epoch_start)]
    write_partition(
        folder, "orders", 0, held, leader_epochs=epochs, log_start_offset=first, high_watermark=35, indexes=indexes
    )
    return folder


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return write_clone(tmp_path / "original", 8)


@pytest.mark.parametrize("layout", ["aiven", "local-tiered-storage"])
@pytest.mark.parametrize("indexes", [False, True])
@pytest.mark.parametrize("uploader", ["tiersnap", "broker"])
def test_tier_refuses_a_diverged_clone_and_writes_nothing(
    tmp_path: Path, original: Path, layout: str, indexes: bool, uploader: str
) -> None:
    clone, remote = write_clone(tmp_path / "clone", 9, indexes=indexes), tmp_path / "remote"
    words = ("--remote", remote, "--layout", layout, *NOW, "--apply")
    store = DirectoryStore(remote)
    if uploader == "broker":
        tier(original / "orders-0", store, layout=open_layout(layout))
    else:
        assert tiersnap("tier", original, *words).exit_code == 0
    before = {info.key: store.get(info.key) for info in store.list()}
    refused = tiersnap("tier", clone, *words)
    assert refused.exit_code == 5, refused.err
    assert str(clone / "orders-0" / f"{20:020d}.log") in refused.err
    assert f"{remote}/" in refused.err
    assert {info.key: store.get(info.key) for info in store.list()} == before
    assert tiersnap("tier", original, *words).exit_code == 0


def test_tier_refuses_a_diverged_clone_whose_epochs_begin_inside_a_segment(tmp_path: Path) -> None:
    original = write_clone(tmp_path / "original", 8, first=10, epoch_start=10, end=30)
    words = ("--remote", tmp_path / "remote", *NOW, "--apply")
    assert tiersnap("tier", original, *words).exit_code == 0
    clone = write_clone(tmp_path / "clone", 9, first=10, epoch_start=15)
    refused = tiersnap("tier", clone, *words)
    assert refused.exit_code == 5, refused.err
    assert str(clone / "orders-0" / f"{10:020d}.log") in refused.err


def test_run_refuses_a_diverged_clone_and_writes_nothing(tmp_path: Path, original: Path) -> None:
    runner = Runner(tmp_path, original)
    assert runner().errors == []
    before = runner.objects()
    clone = Runner(tmp_path, write_clone(tmp_path / "clone", 9))
    assert any("the last batch before offset" in error for error in clone().errors)
    assert clone.objects() == before


ROLLED = [(0, 30), (0, 20), (0, 20, 30), (0,)]


@pytest.mark.parametrize("rolled", ROLLED)
@pytest.mark.parametrize("indexes", [False, True])
@pytest.mark.parametrize("layout", ["aiven", "local-tiered-storage"])
def test_tier_refuses_a_diverged_clone_that_rolled_elsewhere(
    tmp_path: Path, original: Path, layout: str, indexes: bool, rolled: tuple[int, ...]
) -> None:
    words = ("--remote", tmp_path / "remote", "--layout", layout, *NOW, "--apply")
    assert tiersnap("tier", original, *words).exit_code == 0
    store = DirectoryStore(tmp_path / "remote")
    before = {info.key: store.get(info.key) for info in store.list()}
    same = write_clone(tmp_path / "same", 8, indexes=indexes, rolled=rolled)
    assert tiersnap("tier", same, *words).exit_code == 0
    refused = tiersnap("tier", write_clone(tmp_path / "clone", 9, indexes=indexes, rolled=rolled), *words)
    assert refused.exit_code == 5, refused.err
    assert "the last batch before offset 30 is" in refused.err
    assert {info.key: store.get(info.key) for info in store.list()} == before


def test_tier_refuses_a_diverged_clone_that_uploads_in_larger_segments(tmp_path: Path) -> None:
    """What lies in remote storage ends inside a segment of the clone."""
    words = ("--remote", tmp_path / "remote", *NOW, "--apply")
    assert tiersnap("tier", write_clone(tmp_path / "original", 8, end=30), *words).exit_code == 0
    refused = tiersnap("tier", write_clone(tmp_path / "clone", 9, rolled=(0, 30)), *words)
    assert refused.exit_code == 5, refused.err
    assert "the last batch before offset 20 is" in refused.err


@pytest.mark.parametrize("chunk_size", [10, 64, 4096])
def test_tier_refuses_a_diverged_clone_of_a_log_that_the_plugin_compressed(
    tmp_path: Path, original: Path, chunk_size: int
) -> None:
    tier(original / "orders-0", DirectoryStore(tmp_path / "remote"))
    for manifest in (tmp_path / "remote").rglob("*.rsm-manifest"):
        compress_copy(manifest, chunk_size)
    words = ("--remote", tmp_path / "remote", *NOW, "--apply")
    assert tiersnap("tier", original, *words).exit_code == 0
    refused = tiersnap("tier", write_clone(tmp_path / "clone", 9), *words)
    assert refused.exit_code == 5, refused.err
    assert "the last batch before offset 30 is" in refused.err
