"""A clone of a log directory that was written on by itself: same ids, epochs, offsets and sizes, other bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

NOW = ("--now", "2026-11-21T13:00:00Z")


def write_clone(
    folder: Path, producer: int, *, indexes: bool = True, first: int = 0, epoch_start: int = 0, end: int = 40
) -> Path:
    """A log whose segments from offset 10 on have batches of one of two producers."""
    segments = {0: [data_batch(0, 10, 7, 0, 0)]}
    for base in (10, 20, 30):
        segments[base] = [data_batch(base, 5, producer, 0, base - 10), data_batch(base + 5, 5, producer, 0, base - 5)]
    held = {base: entries for base, entries in segments.items() if first <= base < end}
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


@pytest.mark.parametrize("cuts", [(0, 15, 30), (0, 20, 25)], ids=str)
def test_tier_refuses_a_diverged_clone_that_rolled_elsewhere(
    tmp_path: Path, original: Path, cuts: tuple[int, ...]
) -> None:
    """Remote storage ends inside one of its segments, or where one of them ends; a right replica is taken."""
    words = ("--remote", tmp_path / "remote", *NOW, "--apply")
    upload = write_clone(tmp_path / "shorter", 8, end=30)
    assert tiersnap("tier", upload, *words).exit_code == 0

    def rolled(folder: Path, producer: int) -> Path:
        batches = {0: data_batch(0, 10, 7, 0, 0)}
        batches |= {base: data_batch(base, 5, producer, 0, base - 10) for base in range(10, 40, 5)}
        held = {cut: [batches[base] for base in batches if max(at for at in cuts if at <= base) == cut] for cut in cuts}
        write_partition(folder, "orders", 0, held, leader_epochs=[(0, 0)], high_watermark=35, indexes=True)
        return folder

    refused = tiersnap("tier", rolled(tmp_path / "clone", 9), *words)
    assert refused.exit_code == 5, refused.err
    assert "is not that of" in refused.err
    assert tiersnap("tier", rolled(tmp_path / "replica", 8), *words).exit_code == 0


def test_run_refuses_a_diverged_clone_and_writes_nothing(tmp_path: Path, original: Path) -> None:
    runner = Runner(tmp_path, original)
    assert runner().errors == []
    before = runner.objects()
    clone = Runner(tmp_path, write_clone(tmp_path / "clone", 9))
    assert any("is not that of" in error for error in clone().errors)
    assert clone.objects() == before
