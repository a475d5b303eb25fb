"""What could not be tiered shows in the exit code, and in a line that says who must do what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.privileges import run_obeying_modes
from tests.reference.recovered import DATA
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.commands.run import exit_code
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.exit_code import exit_code_of_failures
from tiersnap.snapshot.gate.verdict import Verdict

pytestmark = pytest.mark.unit

# (of a plan, of what was applied)
CODES = {
    "ALREADY_TIERED": (0, 0),
    "COPY_IN_FLIGHT": (0, 0),
    "GAP_IN_REMOTE": (0, 4),
    "ACTIVE_SEGMENT": (0, 0),
    "INTERNAL_TOPIC": (0, 0),
    "COMPACTED_TOPIC": (0, 0),
    "TOPIC_ID_UNKNOWN": (0, 4),
    "UNREADABLE_SEGMENT": (0, 6),
    "CORRUPT_SEGMENT": (5, 5),
    "UNKNOWN_LOG_START": (4, 4),
    "UNKNOWN_TRANSACTIONS": (0, 4),
    "GAP_BEFORE": (0, 0),
    "ABOVE_LSO": (0, 0),
    "MISSING_INDEX": (0, 4),
    "MISSING_SNAPSHOT": (0, 4),
    "UNVERIFIED_SNAPSHOT": (0, 6),
    "CORRUPT_SNAPSHOT": (0, 4),
    "SUSPECT_SNAPSHOT": (0, 4),
    "INDEX_DAMAGED": (0, 4),
    "LEFT_TO_BROKER": (0, 0),
    "ENCRYPTED_REMOTE": (0, 4),
    "READY": (0, 0),
}


@pytest.mark.parametrize("verdict", Verdict)
def test_a_run_ends_as_what_stands_in_the_way_asks_for(verdict: Verdict) -> None:
    outcome = RunOutcome()
    outcome.verdicts = {Verdict.ALREADY_TIERED: 3, verdict: 1}
    codes = tuple(exit_code(outcome, RunSettings(("/logs",), "/remote", "/tables", apply=it)) for it in (False, True))
    assert codes == CODES[verdict]


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_run_ends_as_scan_does_for_what_is_found_in_a_log_directory(is_applied: bool) -> None:
    settings = RunSettings(("/logs",), "/remote", "/tables", apply=is_applied)
    for code in (ExitCode.OK, ExitCode.PARTIAL, ExitCode.DATA_CORRUPT):
        outcome = RunOutcome(verdicts={Verdict.ABOVE_LSO: 3})
        outcome.take_findings(code)
        assert exit_code(outcome, settings) is code


def test_damage_that_an_upload_found_ends_a_run_whatever_else_failed() -> None:
    settings = RunSettings(("/logs",), "/remote", "/tables", apply=True)
    outcome = RunOutcome(error_count=2, is_transient=False)
    assert exit_code(outcome, settings) is ExitCode.PARTIAL
    outcome.refused_count = 1
    assert exit_code(outcome, settings) is ExitCode.PARTIAL
    outcome.refused_count = 2
    assert exit_code(outcome, settings) is ExitCode.GATE_REFUSED
    outcome.is_damaged = True
    assert exit_code(outcome, settings) is ExitCode.DATA_CORRUPT
    codes = {
        (ExitCode.TRANSIENT,): ExitCode.TRANSIENT,
        (ExitCode.TRANSIENT, ExitCode.PARTIAL): ExitCode.PARTIAL,
        (ExitCode.GATE_REFUSED,): ExitCode.GATE_REFUSED,
        (ExitCode.GATE_REFUSED, ExitCode.PARTIAL): ExitCode.PARTIAL,
        (ExitCode.TRANSIENT, ExitCode.DATA_CORRUPT, ExitCode.PARTIAL): ExitCode.DATA_CORRUPT,
    }
    assert {each: exit_code_of_failures(each) for each in codes} == codes


def test_a_host_that_could_tier_nothing_says_so_and_what_clears_it(tmp_path: Path) -> None:
    words = ("tier", DATA / "ledger-2.7.2/logs", "--remote", tmp_path / "remote")
    assert_said(tiersnap(*words), 0, "12 segments TOPIC_ID_UNKNOWN", "--topic-ids FILE")
    ran = tiersnap(*words, "--apply")
    assert_said(ran, 4, "12 segments TOPIC_ID_UNKNOWN", "--topic-ids FILE")
    assert sum(row["tiered"] for row in ran.rows) == 0


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
    assert "1 segment UNREADABLE_SEGMENT: read it as the user that runs the broker" in done.stderr


def test_a_host_whose_uploads_failed_does_not_say_that_there_was_nothing_to_do(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs")
    remote = tmp_path / "remote"
    remote.mkdir()
    (remote / "kafka-tiered-storage").write_bytes(b"a file where folders must be made, as good as a full disk")
    options = ("--layout", "local-tiered-storage", "--apply")
    ran = tiersnap("tier", tmp_path / "logs", "--remote", remote, *options)
    assert_said(ran, 6, "failed: ", "no object was written")
    assert "nothing to do" not in ran.err
