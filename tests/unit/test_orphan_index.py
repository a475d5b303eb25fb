"""An index whose segment is gone: the proof of a loss where it began in a gap, and of nothing anywhere else.

The answer is always the one of the whole log, folded before the segment was lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import write_partition
from tests.reference.lost_segment_log import LEFT, NOW, SEGMENTS

pytestmark = pytest.mark.unit

SUFFIXES = ("index", "timeindex", "txnindex")
LOST = {0: "UPLOADED", 10: "CORRUPT_SEGMENT", 30: "GAP_BEFORE", 40: "ACTIVE_SEGMENT"}


def write(logs: Path, segments: dict[int, list[bytes]]) -> Path:
    write_partition(logs, "orders", 0, segments, high_watermark=45, indexes=True)
    return logs


def index_at(logs: Path, base: int, suffix: str = "index") -> Path:
    return logs / "orders-0" / f"{base:020d}.{suffix}"


def snapshots_in(place: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in place.rglob("*.snapshot")}


def tiered_in(remote: Path) -> set[int]:
    return {int(path.name[:20]) for path in remote.rglob("*.rsm-manifest")}


@pytest.fixture(name="whole")
def fixture_whole(tmp_path: Path) -> dict[int, bytes]:
    """The snapshots of the log, by offset."""
    ran = tiersnap("repair", write(tmp_path / "whole" / "logs", SEGMENTS), "--all", "--out", tmp_path / "whole" / "out")
    assert ran.exit_code == 0, ran.err
    return snapshots_in(tmp_path / "whole" / "out")


@pytest.fixture(name="logs")
def fixture_logs(tmp_path: Path) -> Path:
    """The log without the segment at 20, of which nothing is left."""
    return write(tmp_path / "here" / "logs", LEFT)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_is_made_or_tiered_behind_a_gap_in_which_the_segment_of_an_index_began(
    logs: Path, whole: dict[int, bytes], tmp_path: Path, suffix: str
) -> None:
    index_at(logs, 20, suffix).touch()
    said = "OFFSETS_MISSING", "no segment has the offsets 20 to 29, and the index file of a segment at offset 2"
    assert_said(tiersnap("scan", logs, *NOW), 5, "NO_LOG_FILE", *said)
    repaired = tiersnap("repair", logs, "--above-newest", "--replace", "--apply", *NOW)
    assert_said(repaired, 5, *said, "copy that segment from another replica")
    assert repaired.row(offset=30)["action"] == "NO_START"
    assert snapshots_in(logs) == {10: whole[10]}
    assert_said(tiersnap("tier", logs, "--remote", tmp_path / "remote", "--apply", *NOW), 5, *said)
    assert tiered_in(tmp_path / "remote") == {0}


def test_an_index_that_is_no_regular_file_proves_the_same(logs: Path) -> None:
    index_at(logs, 20).symlink_to("nowhere")
    assert_said(tiersnap("scan", logs, *NOW), 5, "UNREADABLE_FILE", "OFFSETS_MISSING")


def test_files_that_know_of_the_lost_offsets_are_kept_and_believed(logs: Path, whole: dict[int, bytes]) -> None:
    index_at(logs, 20).touch()
    for offset in (30, 40):
        (logs / "orders-0" / f"{offset:020d}.snapshot").write_bytes(whole[offset])
    assert_said(tiersnap("repair", logs, "--replace", "--apply", *NOW), 5)
    assert snapshots_in(logs) == {offset: whole[offset] for offset in (10, 30, 40)}
    ran = tiersnap("verify", logs, *NOW)
    assert [ran.row(offset=offset)["verdict"] for offset in (10, 30, 40)] == ["MATCHES", "EXTENDS", "MATCHES"]


@pytest.mark.parametrize(
    ("base", "checkpoint"),
    [
        (25, None),  # inside a segment, as the cleaner leaves it
        (19, None),
        (45, None),  # the log end, and above
        (99, None),
        (0, ("log-start-offset-checkpoint", 15)),
        (5, ("log-start-offset-checkpoint", 15)),
    ],
)
def test_an_index_in_no_gap_proves_nothing(
    whole: dict[int, bytes], tmp_path: Path, base: int, checkpoint: tuple[str, int] | None
) -> None:
    logs = write(tmp_path / "here" / "logs", {each: SEGMENTS[each] for each in SEGMENTS if each != base})
    index_at(logs, base).touch()
    if checkpoint is not None:
        name, offset = checkpoint
        (logs / name).write_text(f"0\n1\norders 0 {offset}\n")
    ran = tiersnap("scan", logs, "--segments", *NOW)
    assert_said(ran, 5, "NO_LOG_FILE")
    assert "OFFSETS_MISSING" not in ran.err
    assert "CORRUPT_SEGMENT" not in {row["verdict"] for row in ran.rows}
    tiersnap("repair", logs, "--above-newest", "--apply", *NOW)
    if checkpoint is None:
        assert snapshots_in(logs) == {offset: whole[offset] for offset in (10, 20, 30, 40)}


@pytest.mark.parametrize(("cleaner_offset", "is_proof"), [(20, True), (21, False), (30, False), (40, False)])
def test_what_the_cleaner_has_passed_is_no_loss(logs: Path, cleaner_offset: int, is_proof: bool) -> None:
    index_at(logs, 20).touch()
    (logs / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {cleaner_offset}\n")
    assert ("OFFSETS_MISSING" in tiersnap("scan", logs, *NOW).err) is is_proof


def test_the_main_job_sees_it_in_every_run(logs: Path, whole: dict[int, bytes], tmp_path: Path) -> None:
    index_at(logs, 20).touch()
    runner = Runner(tmp_path, logs)
    first, second = runner(as_of=None), runner(as_of=None)
    for ran in (first, second):
        assert {row["base_offset"]: row["verdict"] for row in ran.readiness} == LOST
    assert second.did_nothing
    stored = [data for key, data in runner.objects().items() if key.endswith(".snapshot")]
    assert set(stored) == {whole[10]}
    # The segment is put back: all of it goes on.
    write(logs, SEGMENTS)
    third = runner(as_of=None)
    assert {row["verdict"] for row in third.readiness} == {"UPLOADED", "ACTIVE_SEGMENT"}
    stored = [data for key, data in runner.objects().items() if key.endswith(".snapshot")]
    assert set(stored) == {whole[offset] for offset in (10, 20, 30, 40)}


def test_the_main_job_does_not_go_on_from_a_state_of_before_it_was_seen(logs: Path, tmp_path: Path) -> None:
    runner = Runner(tmp_path, logs)
    before = runner(as_of=None, apply=False)
    assert before.boundaries().keys() >= {30, 40}
    index_at(logs, 20).touch()
    ran = runner(as_of=None, apply=False)  # other settings would not go on from it either
    assert {row["base_offset"]: row["verdict"] for row in ran.readiness} == {**LOST, 0: before.readiness[0]["verdict"]}


def test_what_is_collected_of_the_log_says_so(logs: Path, tmp_path: Path) -> None:
    index_at(logs, 20).touch()
    assert_said(tiersnap("collect", logs, "--to", tmp_path / "shared", "--apply"), 5, "NO_LOG_FILE")
    ran = Runner(tmp_path, tmp_path / "shared")(as_of=None)
    verdicts = {row["base_offset"]: row["verdict"] for row in ran.readiness}
    assert {base: verdicts[base] for base in (10, 30)} == {10: "CORRUPT_SEGMENT", 30: "GAP_BEFORE"}
