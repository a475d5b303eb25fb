"""What could not be tiered shows in the exit code, and in a line that says who must do what."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.privileges import run_obeying_modes
from tests.reference.recovered import DATA
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.errors import (
    CorruptDataError,
    ExitCode,
    GateError,
    RemoteStorageError,
    TransientError,
    UnfinishedError,
)
from tiersnap.snapshot.gate.exit_code import OtherProblem, exit_code_of
from tiersnap.snapshot.gate.remote_check import RemoteVerdict
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.findings import DELETED, Finding, FindingKind
from tiersnap.snapshot.replay.expiry import ReplayOptions

pytestmark = pytest.mark.unit

# (of a plan, of what was applied)
CODES = {
    "TIERED": (0, 0),
    "UPLOADED": (0, 0),
    "IN_REMOTE": (0, 0),
    "COPY_IN_FLIGHT": (0, 0),
    "GAP_IN_REMOTE": (4, 4),
    "ACTIVE_SEGMENT": (0, 0),
    "INTERNAL_TOPIC": (0, 0),
    "COMPACTED_TOPIC": (0, 0),
    "TOPIC_ID_UNKNOWN": (4, 4),
    "UNREADABLE_SEGMENT": (0, 0),  # its finding decides
    "CORRUPT_SEGMENT": (0, 0),  # likewise
    "UNKNOWN_LOG_START": (4, 4),
    "UNKNOWN_TRANSACTIONS": (4, 4),
    "GAP_BEFORE": (0, 0),
    "ABOVE_LSO": (0, 0),
    "MISSING_INDEX": (4, 4),
    "MISSING_SNAPSHOT": (0, 4),  # --apply writes it
    "UNVERIFIED_SNAPSHOT": (6, 6),
    "CORRUPT_SNAPSHOT": (5, 5),
    "SUSPECT_SNAPSHOT": (4, 4),
    "INDEX_DAMAGED": (4, 4),  # a broker copies the partition; what is uploaded is READY
    "LEFT_TO_BROKER": (0, 0),
    "ENCRYPTED_REMOTE": (4, 4),
    "BEFORE_WINDOW": (0, 0),
    "READY": (0, 0),
}


def settings(*, apply: bool, replace: bool = False) -> RunSettings:
    return RunSettings(("/logs",), "/remote", "/tables", apply=apply, replay=ReplayOptions(replace=replace))


@pytest.mark.parametrize("verdict", Verdict)
def test_a_run_ends_as_what_stands_in_the_way_asks_for(verdict: Verdict) -> None:
    outcome = RunOutcome(verdicts={Verdict.TIERED: 3, verdict: 1})
    codes = tuple(exit_code_of(outcome.problems(settings(apply=it))) for it in (False, True))
    assert codes == CODES[verdict]


@pytest.mark.parametrize("verdict", [Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT])
def test_a_plan_with_replace_ends_with_0_for_a_snapshot_that_apply_replaces(verdict: Verdict) -> None:
    outcome = RunOutcome(verdicts={verdict: 1})
    assert exit_code_of(outcome.problems(settings(apply=False, replace=True))) is ExitCode.OK
    assert exit_code_of(outcome.problems(settings(apply=True, replace=True))) is not ExitCode.OK


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_run_ends_as_scan_does_for_what_is_found_in_a_log_directory(is_applied: bool) -> None:
    kinds = {
        FindingKind.BAD_CRC: ExitCode.DATA_CORRUPT,
        FindingKind.PERMISSION_DENIED: ExitCode.PARTIAL,
        FindingKind.CORRUPT_INDEX: ExitCode.GATE_REFUSED,
    }
    for kind, code in kinds.items():
        outcome = RunOutcome(verdicts={Verdict.ABOVE_LSO: 3}, kinds={kind})
        assert exit_code_of(outcome.problems(settings(apply=is_applied))) is code


def test_exit_code_is_that_of_the_worst_problem() -> None:
    failed, refused, away = UnfinishedError("x"), GateError("x"), TransientError("x")
    denied, damaged = RemoteStorageError("x"), CorruptDataError("x")
    worst_first = [damaged, away, denied, refused, failed]
    assert [exit_code_of([each]) for each in worst_first] == [5, 3, 2, 4, 6]
    for number, each in enumerate(worst_first):
        assert exit_code_of(reversed(worst_first[number:])) is each.exit_code
    assert exit_code_of([]) is exit_code_of([Verdict.READY, SnapshotVerdict.MATCHES]) is ExitCode.OK


def test_exit_code_of_a_verdict_on_a_snapshot_is_the_same_in_any_place() -> None:
    of_files = {each: exit_code_of([SnapshotVerdict(each)]) for each in ("CORRUPT", "SUSPECT", "UNVERIFIED", "MATCHES")}
    assert of_files == {each: exit_code_of([RemoteVerdict(each)]) for each in of_files}
    for name in ("CORRUPT", "SUSPECT", "UNVERIFIED", "MISSING"):
        assert exit_code_of([SnapshotVerdict(name)]) is exit_code_of([Verdict(f"{name}_SNAPSHOT")])


def test_finding_about_a_file_that_was_deleted_meanwhile_asks_for_another_run() -> None:
    codes = {
        (FindingKind.DELETED_FILE, DELETED): ExitCode.TRANSIENT,
        (FindingKind.UNREADABLE_FILE, "the disk failed"): exit_code_of([FindingKind.UNREADABLE_FILE]),
        (FindingKind.BAD_CRC, "a byte is wrong"): ExitCode.DATA_CORRUPT,
    }
    assert codes == {(kind, why): exit_code_of([Finding(kind, "/logs/x.log", -1, why)]) for kind, why in codes}


@pytest.mark.parametrize("problem", OtherProblem)
def test_other_problems_are_refused_unless_they_are_worse_or_a_part_was_done(problem: OtherProblem) -> None:
    codes = {
        **dict.fromkeys(("DAMAGED_STORED_SNAPSHOT", "LOST_REMOTE_SEGMENT", "BROKEN_EXACTLY_ONCE", "CUT_SEGMENT"), 5),
        "DAMAGED_SAVED_CONFIGS": 5,
        **dict.fromkeys(("STUCK_COPY_AHEAD", "RESTART_NEEDED"), 6),
        **dict.fromkeys(("UNSAFE_STORE", "NEWER_SAVED_CONFIGS"), 2),
    }
    assert exit_code_of([problem]) == codes.get(problem, 4)


def test_errors_that_a_run_counts_end_it_by_their_codes() -> None:
    outcome = RunOutcome(error_codes=Counter({ExitCode.GATE_REFUSED: 2}))
    assert exit_code_of(outcome.problems(settings(apply=True))) is ExitCode.GATE_REFUSED
    outcome.error_codes[ExitCode.TRANSIENT] += 1
    assert (exit_code_of(outcome.problems(settings(apply=True))), outcome.error_count) == (ExitCode.TRANSIENT, 3)


def test_a_host_that_could_tier_nothing_says_so_and_what_clears_it(tmp_path: Path) -> None:
    words = ("tier", DATA / "ledger-2.7.2/logs", "--remote", tmp_path / "remote")
    assert_said(tiersnap(*words), 4, "12 segments TOPIC_ID_UNKNOWN", "--topic-ids FILE")
    ran = tiersnap(*words, "--apply")
    assert_said(ran, 4, "12 segments TOPIC_ID_UNKNOWN", "--topic-ids FILE")
    assert sum(row["uploaded"] for row in ran.rows) == 0


def test_doctor_scan_and_tier_agree_that_segments_without_a_topic_id_wait(tmp_path: Path) -> None:
    (write_small_log(tmp_path / "logs") / "partition.metadata").unlink()
    for words in (("doctor",), ("scan",), ("tier", "--remote", tmp_path / "remote", "--apply")):
        ran = tiersnap(words[0], tmp_path / "logs", *words[1:])
        assert_said(ran, 4)
        assert "TOPIC_ID_UNKNOWN" in ran.out + ran.err


def test_a_host_that_may_not_read_a_file_says_so_and_ends_with_partial(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path / "logs")
    file_of(folder, 10, ".log").chmod(0o000)
    words = ["tier", str(tmp_path / "logs"), "--remote", str(tmp_path / "remote"), "--apply"]
    done = run_obeying_modes("-m", "tests.reference.tiersnap", *words)
    assert done.returncode == 6, done.stderr
    assert "1 segment UNREADABLE_SEGMENT: run the command as the user that runs the broker" in done.stderr


def test_a_host_whose_uploads_failed_does_not_say_that_there_was_nothing_to_do(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs")
    remote = tmp_path / "remote"
    remote.mkdir()
    (remote / "kafka-tiered-storage").write_bytes(b"a file where folders must be made, as good as a full disk")
    options = ("--layout", "local-tiered-storage", "--apply")
    ran = tiersnap("tier", tmp_path / "logs", "--remote", remote, *options)
    assert_said(ran, 2, "failed: ", "no object was written")
    assert "nothing to do" not in ran.err
