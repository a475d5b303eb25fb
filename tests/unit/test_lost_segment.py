"""A closed segment that was lost: what files behind it know is kept, and nothing is made or tiered that lacks it.

The answer is always the one of the whole log, folded before the segment was lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.lost_segment_log import LEFT, NOW, SEGMENTS
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit

Lose = Callable[[dict[int, bytes]], Path]


def snapshots_in(folder: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in folder.rglob("*.snapshot")}


def folded(tmp_path: Path, segments: dict[int, list[bytes]]) -> dict[int, bytes]:
    """Snapshots of a log by offset."""
    name = f"of-{len(segments)}"
    write_partition(tmp_path / name, "orders", 0, segments, high_watermark=45, indexes=True)
    ran = tiersnap("repair", tmp_path / name, "--all", "--out", tmp_path / f"{name}-out")
    assert ran.exit_code == 0, ran.err
    return snapshots_in(tmp_path / f"{name}-out")


@pytest.fixture(name="whole")
def fixture_whole(tmp_path: Path) -> dict[int, bytes]:
    found = folded(tmp_path, SEGMENTS)
    assert snapshot_file.decode(found[30])["last_offset"].tolist() == [9, 24, 29]
    return found


@pytest.fixture(name="finding", params=["OFFSETS_MISSING", "EMPTY_SEGMENT"])
def fixture_finding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="lose")
def fixture_lose(finding: str, tmp_path: Path) -> Lose:
    """A log directory without the segment at 20, or with one of 0 bytes, and with these snapshots."""

    def lose(snapshots: dict[int, bytes]) -> Path:
        segments = LEFT if finding == "OFFSETS_MISSING" else {**SEGMENTS, 20: []}
        logs = tmp_path / "logs"
        write_partition(logs, "orders", 0, segments, snapshots=snapshots, high_watermark=45, indexes=True)
        return logs

    return lose


def test_right_files_behind_it_are_kept_and_nothing_is_tiered_over_it(
    lose: Lose, finding: str, whole: dict[int, bytes], tmp_path: Path
) -> None:
    logs = lose({30: whole[30], 40: whole[40]})
    repaired = tiersnap("repair", logs, "--replace", "--apply", *NOW)
    assert_said(repaired, 5, finding)
    assert {offset: snapshots_in(logs)[offset] for offset in (30, 40)} == {30: whole[30], 40: whole[40]}
    verified = tiersnap("verify", logs, *NOW)
    assert [verified.row(offset=offset)["verdict"] for offset in (30, 40)] == ["EXTENDS", "MATCHES"]
    ran = tiersnap("tier", logs, "--remote", tmp_path / "remote", "--apply", *NOW)
    assert_said(ran, 5, finding)
    tiered = {int(path.name[:20]) for path in (tmp_path / "remote").rglob("*.rsm-manifest")}
    assert tiered <= {0, 10}
    assert max(tiered) + 10 < 30


def test_a_missing_file_behind_it_is_not_made_of_what_is_left(lose: Lose, whole: dict[int, bytes]) -> None:
    logs = lose({40: whole[40]})
    ran = tiersnap("repair", logs, "--replace", "--apply", *NOW)
    assert ran.exit_code == 5
    assert ran.row(offset=30)["action"] == "NO_START"
    left = snapshots_in(logs)
    assert 30 not in left
    assert left[40] == whole[40]


def test_a_file_that_was_made_of_what_is_left_is_not_trusted_nor_taken_for_the_beginning_of_what_follows(
    lose: Lose, whole: dict[int, bytes], tmp_path: Path
) -> None:
    poor = folded(tmp_path, LEFT)[30]
    logs = lose({30: poor, 40: whole[40]})
    ran = tiersnap("repair", logs, "--replace", "--apply", *NOW)
    assert ran.row(offset=30)["found"] == "UNVERIFIED"
    assert (snapshots_in(logs)[30], snapshots_in(logs)[40]) == (poor, whole[40])


def test_a_gap_of_which_no_file_knows_is_a_log_as_brokers_write_it(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_partition(logs, "orders", 0, LEFT, high_watermark=45, indexes=True)
    assert tiersnap("scan", logs, *NOW).exit_code == 4, "for want of snapshots alone"
    assert tiersnap("repair", logs, "--apply", "--above-newest", *NOW).exit_code == 0
    assert snapshots_in(logs)[40] == folded(tmp_path, LEFT)[40]
    assert tiersnap("scan", logs, *NOW).exit_code == 0


def test_what_the_cleaner_has_passed_is_no_loss(whole: dict[int, bytes], tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_partition(logs, "orders", 0, LEFT, snapshots={40: whole[40]}, high_watermark=45, indexes=True)
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    assert "OFFSETS_MISSING" not in tiersnap("scan", logs, *NOW).err


def test_the_main_job_sees_it_in_every_run(lose: Lose, whole: dict[int, bytes], tmp_path: Path) -> None:
    logs = lose({30: whole[30], 40: whole[40]})
    runner = Runner(tmp_path, logs)
    first = runner(as_of=None)
    # A segment is rolled, and nothing else changes.
    before = {path: path.stat().st_mtime_ns for path in (logs / "orders-0").iterdir()}
    segments = {int(path.stem): [path.read_bytes()] for path in before if path.suffix == ".log"}
    more = {**segments, 45: [data_batch(45, 5, 1, 0, 25)]}
    snapshots = {offset: whole[offset] for offset in (30, 40)}
    write_partition(logs, "orders", 0, more, snapshots=snapshots, high_watermark=50, indexes=True)
    for path, modified_ns in before.items():
        os.utime(path, ns=(modified_ns, modified_ns))
    second = runner(as_of=None)
    assert [base for _, base in second.decoded] == [45]
    for ran in (first, second):
        verdicts = {row["base_offset"]: row["verdict"] for row in ran.readiness}
        assert verdicts[0] == "UPLOADED"
        assert "CORRUPT_SEGMENT" in (verdicts[10], verdicts.get(20))
        assert verdicts[30] == "GAP_BEFORE"


@pytest.mark.parametrize("replace", [False, True])
def test_the_main_job_keeps_what_it_stored_of_the_whole_log_and_tiers_nothing_over_the_hole(
    tmp_path: Path, replace: bool
) -> None:
    """No file beside the log, as before Kafka 2.8: only the objects in remote storage know of the offsets."""
    logs = tmp_path / "logs"
    folder = write_partition(logs, "orders", 0, SEGMENTS, high_watermark=45, indexes=True)
    runner = Runner(tmp_path, logs)
    made = Runner(tmp_path / "made", logs)
    made(as_of=None)
    keep = {key: data for key, data in made.objects().items() if key.startswith("snapshots/")}
    for key, data in keep.items():
        path = Path(runner.remote) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for path in folder.glob(f"{20:020d}.*"):
        path.unlink()
    ran = runner(as_of=None, replace=replace)
    assert any("no segment has the offsets 20 to 29" in error for error in ran.errors)
    assert {key: runner.objects()[key] for key in keep if key.endswith(".snapshot")} == {
        key: data for key, data in keep.items() if key.endswith(".snapshot")
    }
    tiered = {row["base_offset"] for row in ran.tiered if row["state"] == "COPY_SEGMENT_FINISHED"}
    assert tiered == {0}
