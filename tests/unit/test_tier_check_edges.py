"""`tiersnap verify --remote` beside what goes on meanwhile, and with options that do not go together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.poisoned_tier import NOW, TOPIC_ID, PoisonedTier, poisoned_tier
from tests.reference.tiered import tier
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.snapshot.report.remote_checks import RemoteChecked, read_lines, remote_checked

pytestmark = pytest.mark.unit

DEPTHS = ["metadata", "snapshots", "full"]
CHURN = TopicIdPartition("churn", TOPIC_ID, 0)


@pytest.fixture(name="at")
def fixture_at(tmp_path: Path) -> PoisonedTier:
    """Seven segments from 0, 108, 222, 338, 453, 574 and 685 on; nothing is wrong with them."""
    return poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)


def checked(at: PoisonedTier, *words: str | Path, depth: str = "snapshots") -> Ran:
    return tiersnap("verify", *words, "--remote", at.remote, *NOW, "--depth", depth)


def verdicts(ran: Ran) -> list[tuple[int, str]]:
    """Of what is not sound."""
    rows = ((row["base_offset"], row["verdict"]) for row in ran.rows)
    return [each for each in rows if each[1] in {"SUSPECT", "MISSING", "CORRUPT"}]


def delete_after_the_listing(at: PoisonedTier, monkeypatch: pytest.MonkeyPatch, *bases: int) -> None:
    """Let segments go once the partition was listed for its check; the first listing is that of the plan."""
    listings: Counter[str] = Counter()
    real = DirectoryStore.list

    def listing(store: DirectoryStore, prefix: str = "", **how: str) -> Iterator[ObjectInfo]:
        found = list(real(store, prefix, **how))
        listings["segments"] += any(each.key.endswith(".rsm-manifest") for each in found)
        if listings["segments"] == 2:
            for path in (path for base in bases for path in at.remote.rglob(f"{base:020d}-*")):
                path.unlink()
        return iter(found)

    monkeypatch.setattr(DirectoryStore, "list", listing)


@pytest.mark.parametrize("depth", DEPTHS)
def test_verify_says_nothing_of_segments_that_retention_takes_meanwhile(
    at: PoisonedTier, depth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_after_the_listing(at, monkeypatch, 0, 108)
    ran = checked(at, depth=depth)
    assert_said(ran, 6, "5 of 5 remote segments are sound", "1 range of offsets is in no segment")
    assert verdicts(ran) == []
    assert ran.row(verdict="UNVERIFIED")["next_base_offset"] == 222, "nobody tells the log start"


@pytest.mark.parametrize("depth", DEPTHS)
def test_verify_names_a_segment_that_is_lost_meanwhile(
    at: PoisonedTier, depth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_after_the_listing(at, monkeypatch, 222)
    ran = checked(at, depth=depth)
    assert (ran.exit_code, verdicts(ran)) == (5, [(222, "CORRUPT")])


def test_verify_says_nothing_of_a_topic_that_is_deleted_meanwhile(
    at: PoisonedTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_after_the_listing(at, monkeypatch, 0, 108, 222, 338, 453, 574, 685)
    assert_said(checked(at), 0, "no remote segment was verified at depth")


def unfinished(at: PoisonedTier, base: int) -> None:
    """Leave of a segment what a broker leaves that is killed while it copies, a long time ago."""
    for path in at.remote.rglob(f"{base:020d}-*"):
        os.utime(path, (1, 1)) if path.suffix == ".log" else path.unlink()


def test_verify_suspects_what_was_not_finished_before_the_first_segment(at: PoisonedTier) -> None:
    """Nobody can tell whether it was ever a segment; MISSING is said where the log shows a hole."""
    unfinished(at, 0)
    unfinished(at, 222)
    assert verdicts(checked(at, depth="metadata")) == [(0, "SUSPECT"), (222, "MISSING")]


def test_verify_sees_no_hole_in_a_segment_that_was_mended_since(at: PoisonedTier, tmp_path: Path) -> None:
    """Its earlier check tells no end of it, and the sample leaves it out."""
    (manifest,) = at.remote.rglob("*0222-*.rsm-manifest")
    whole, told = manifest.read_bytes(), tmp_path / "told.jsonl"
    manifest.write_bytes(whole[:100])
    told.write_text(tiersnap("verify", "--remote", at.remote, *NOW, output="jsonl").out)
    manifest.write_bytes(whole)
    for sample in ("1", "2", "3"):
        assert_said(checked(at, "--resume", told, "--sample", sample, depth="full"), 0)


def test_verify_passes_by_lines_of_another_form(at: PoisonedTier, tmp_path: Path) -> None:
    told = tmp_path / "told.jsonl"
    whole = tiersnap("verify", "--remote", at.remote, *NOW, output="jsonl").out
    told.write_text(whole.replace('"partition": 0', '"partition": "0"', 1))
    assert_said(checked(at, "--resume", told), 0, "6 segments were skipped")


def test_verify_sample_knows_no_producer_from_a_lost_leader(tmp_path: Path) -> None:
    """A segment of a leader that lost an unclean election is no state to compare the next sampled one with."""
    store = DirectoryStore(tmp_path / "remote")
    for name, epoch, bases in (("lost", 1, (0, 5, 10)), ("log", 2, (0, 5, 10, 15))):
        segments = {
            base: [lb.data_batch(base, 5, base + 100 * epoch if base else 7, 0, 0, leader_epoch=epoch if base else 0)]
            for base in bases
        }
        folder = lb.write_partition(tmp_path / name, "orders", 0, segments, leader_epochs=[(0, 0), (epoch, 5)])
        tier(folder, store)
    for later in range(20):
        at = "--remote", store.root, "--now", str(lb.TIMESTAMP + later)
        assert_said(tiersnap("verify", *at, "--sample", "1"), 0, "1 of 1 remote segment is sound")


def test_verify_blames_no_remote_segment_for_a_damaged_local_log(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "remote")
    segments = {base: [lb.data_batch(at, 5, 7, 0, at) for at in (base, base + 5)] for base in (0, 10, 20)}
    folder = lb.write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=20)
    tier(folder, store)
    log = folder / f"{10:020d}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"\1")
    at = tmp_path / "logs", "--remote", store.root, "--now", str(lb.TIMESTAMP)
    for depth in DEPTHS[1:]:
        ran = tiersnap("verify", *at, "--depth", depth)
        assert_said(ran, 5, "2 of 2 remote segments are sound", "BAD_CRC")
        assert ran.rows[0]["compared_with"] == "LOCAL_LOG"


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ("version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBQ", "its topic id is BBBBBBBBBBBBBBBBBBBBBQ"),
        (None, "the folder has no partition.metadata"),
    ],
)
def test_verify_says_that_a_local_log_of_another_topic_id_is_left_out(
    at: PoisonedTier, metadata: str | None, says: str
) -> None:
    file = at.logs / at.name / "partition.metadata"
    file.unlink() if metadata is None else file.write_text(metadata)
    ran = checked(at, at.logs)
    assert ran.err.count(f"{at.name}: not compared: {says}, but remote storage has {TOPIC_ID}") == 1, ran.err
    assert {row["compared_with"] for row in ran.rows}.isdisjoint({"LOCAL_LOG"})


def test_verify_refuses_disks_with_one_partition_twice_beside_remote(at: PoisonedTier, tmp_path: Path) -> None:
    assert_said(checked(at, at.logs, tmp_path / "whole"), 5, "churn-0 exists in two of the log directories")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--sample 5%", "add --depth snapshots, or leave LOGDIR out"),
        ("--resume told.jsonl", "add --depth snapshots, or leave LOGDIR out"),
        ("--warehouse warehouse", "\n  leave LOGDIR out"),  # with LOGDIR it is refused with --depth, too
    ],
)
def test_verify_refuses_options_of_remote_storage_without_depth(at: PoisonedTier, words: str, hint: str) -> None:
    ran = tiersnap("verify", at.logs, "--remote", at.remote, *NOW, *words.split())
    said = "is only for remote storage, but this command also verifies the files of LOGDIR"
    assert_said(ran, 2, f"{words.split()[0]} {said}", hint)


def test_verify_refuses_against_with_depth(at: PoisonedTier, tmp_path: Path) -> None:
    assert_said(checked(at, at.logs, "--against", tmp_path), 2, "--against is only for the files of LOGDIR")


def test_verify_asks_for_the_log_directory_of_against(at: PoisonedTier, tmp_path: Path) -> None:
    ran = tiersnap("verify", "--remote", at.remote, *NOW, "--against", tmp_path)
    assert_said(ran, 2, "--against is only for the files of LOGDIR", "give LOGDIR")


def verified(at: PoisonedTier, told: Path, *words: str) -> RemoteChecked:
    """Check, append the lines, and sum up what all of them tell of the partition."""
    with told.open("a") as file:
        file.write(tiersnap("verify", "--remote", at.remote, *words, output="jsonl").out)
    return remote_checked(read_lines(told))["churn", TOPIC_ID, 0]


def test_verified_segments_are_those_that_are_there_still(tmp_path: Path) -> None:
    """Retention takes what was suspected, and what was verified does not count for what is there now."""
    at, told = poisoned_tier(tmp_path, "churn-0", rebuilt=2, local_from=7), tmp_path / "told.jsonl"
    first = verified(at, told, *NOW)
    assert (first.segments, first.verified, first.unsound > 0) == (7, 7, True)
    for base in (0, 108, 222, 338, 453, 574):
        for path in at.remote.rglob(f"{base:020d}-*"):
            path.unlink()
    later = verified(at, told, "--now", "2027-01-01T00:00:00Z", "--depth", "full")
    head = 1  # nobody tells the log start
    assert (later.segments, later.verified, later.unsound, later.depths) == (1, 1, head, {"full": 1})


def test_every_hole_counts_as_not_sound_until_it_is_mended(at: PoisonedTier, tmp_path: Path) -> None:
    told, lost = tmp_path / "told.jsonl", {}
    for base in (108, 338):
        lost |= {path: path.read_bytes() for path in at.remote.rglob(f"{base:020d}-*")}
    for path in lost:
        path.unlink()
    assert verified(at, told, *NOW).unsound == 2
    for path, data in lost.items():
        path.write_bytes(data)
    assert verified(at, told, "--now", "2027-01-01T00:00:00Z").unsound == 0


def test_verify_tells_that_a_segment_is_gone_that_was_not_sound(at: PoisonedTier, tmp_path: Path) -> None:
    """As `mend` replaces one: nobody is told of it any more."""
    (manifest,) = at.remote.rglob("*0222-*.rsm-manifest")
    content, told = manifest.read_bytes(), tmp_path / "told.jsonl"
    old, new = manifest.stem.partition("-")[2], "B" * 21 + "A"
    manifest.write_bytes(content[:100])
    assert verified(at, told, *NOW).unsound == 1
    for path in at.remote.rglob("*0222-*"):
        path.rename(path.with_name(path.name.replace(old, new)))
    manifest.with_name(manifest.name.replace(old, new)).write_bytes(content.replace(old.encode(), new.encode()))
    assert verified(at, told, *NOW, "--resume", str(told)).unsound == 0
    assert [(each.segment_id, each.verdict) for each in read_lines(told)][-1] == (old, "GONE")
    assert_said(checked(at, "--resume", told), 0, "no remote segment was verified", "7 segments were skipped")


def test_verify_names_a_next_command_that_can_be_typed_for_a_topic_named_full(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "remote")
    segments = {base: [lb.data_batch(base, 5)] for base in (0, 5)}
    tier(lb.write_partition(tmp_path / "logs", "full", 0, segments), store)
    ran = tiersnap("verify", "--remote", store.root, "--topic", "full", "--depth", "metadata")
    assert_said(ran, 0, "--topic full ", " --depth full\n")


@pytest.mark.parametrize("layout", ["aiven", "local-tiered-storage"])
def test_plan_of_a_sample_counts_the_snapshots_before_it(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7, layout=layout)
    asked: Counter[str] = Counter()
    for name in ("get", "get_range", "list"):
        real = getattr(DirectoryStore, name)
        count = lambda *args, _name=name, _real=real, **how: asked.update([_name]) or _real(*args, **how)  # noqa: E731
        monkeypatch.setattr(DirectoryStore, name, count)
    for later in range(20):
        asked.clear()
        ran = tiersnap("verify", "--remote", at.remote, "--layout", layout, "--now", str(later), "--sample", "3")
        planned = int(ran.err.partition("at most ")[2].partition(" request")[0])
        assert asked.total() - 2 <= planned, "but for the listings of the plan"


@pytest.mark.parametrize("depth", DEPTHS)
def test_verify_accepts_a_time_index_of_records_with_timestamp_0(tmp_path: Path, depth: str) -> None:
    """Producers without a clock send 0; the one entry of the time index then looks like padding."""
    disk, remote = tmp_path / "disk", tmp_path / "remote"
    segments = {base: [lb.data_batch(base, 1, 7, 0, base, timestamp=0)] for base in range(3)}
    lb.write_partition(disk, "clockless", 0, segments, high_watermark=3, indexes=True)
    assert_said(tiersnap("tier", disk, "--remote", remote, *NOW, "--apply"), 0)
    assert_said(tiersnap("verify", "--remote", remote, *NOW, "--depth", depth), 0, "2 of 2 remote segments are sound")
