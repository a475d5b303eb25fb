"""Logs that begin in a tier which a rebuilt replica poisoned: every command computes the truth, or nothing at all."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.fleet_run import Runner
from tests.reference.fold import Entry, State
from tests.reference.next_steps import commands_of
from tests.reference.poisoned_tier import EMPTY, NOW, PoisonedTier, poisoned_tier
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.remote_log.partition_objects import list_topic
from tiersnap.remote_storage.remote_log.remote_segment import read_indexes
from tiersnap.remote_storage.restore.published import read_copies
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit

LAYOUTS = ["aiven", "local-tiered-storage"]
EXPIRY = ("--expiration", "none")
ALL_OF_IT = ("--leave-to-broker", "none")  # although a broker uploaded the rest of it a moment ago


def state(data: bytes) -> State:
    return {producer: Entry(*values) for producer, *values in snapshot_file.decode(data).tolist()}


@pytest.fixture(name="churn", params=LAYOUTS)
def fixture_churn(tmp_path: Path, request: pytest.FixtureRequest) -> PoisonedTier:
    """Hundreds of producers; a replica was rebuilt at the sixth of nine segments, and the last two are left."""
    return poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7, layout=request.param)


def words(at: PoisonedTier) -> tuple[str, ...]:
    layout = LAYOUTS[(at.remote / "kafka-tiered-storage").exists()]
    return ("--remote", str(at.remote), "--layout", layout)


def test_the_tier_is_poisoned_as_brokers_poison_it(churn: PoisonedTier) -> None:
    known = {offset: len(state(data)) for offset, data in churn.tiered.items()}
    assert known == {108: 42, 222: 88, 338: 132, 453: 181, 574: 230, 685: 47, 804: 97}
    assert {offset: len(state(data)) for offset, data in churn.left.items()} == {804: 0, 919: 43, 937: 50}


def test_repair_writes_what_kafka_says_of_the_whole_log(churn: PoisonedTier) -> None:
    ran = tiersnap("repair", churn.logs, *words(churn), *NOW, *EXPIRY, "--replace", "--apply")
    assert_said(ran, 0, "lacks 229 active producers of the snapshot at offset 574", "3 snapshots are written")
    assert {offset: state(data) for offset, data in churn.snapshots().items()} == {
        offset: state(churn.expected[offset]) for offset in churn.left
    }
    again = tiersnap("repair", churn.logs, *words(churn), *NOW, *EXPIRY, "--replace", "--apply")
    assert (again.exit_code, again.rows) == (0, [])
    ran = tiersnap("verify", churn.logs, *words(churn), *NOW, "--strict")
    assert_said(ran, 4, "3 of 3 snapshots agree with the log", "5 of 7 remote segments are sound")
    assert {row["verdict"] for row in ran.rows if "lacking" in row} == {"MATCHES"}
    assert [row["next_base_offset"] for row in ran.rows if row["verdict"] == "SUSPECT"] == [685, 804]


def test_tier_uploads_no_poison_and_what_it_wrote_is_believed_next_time(churn: PoisonedTier) -> None:
    ran = tiersnap("tier", churn.logs, *words(churn), *NOW, *EXPIRY, *ALL_OF_IT, "--apply")
    assert_said(ran, 4, "SUSPECT_SNAPSHOT")
    ran = tiersnap("tier", churn.logs, *words(churn), *NOW, *EXPIRY, *ALL_OF_IT, "--replace", "--apply")
    assert_said(ran, 0)
    (row,) = ran.rows
    assert row["uploaded"] == 1
    store = DirectoryStore(churn.remote)
    (listed,) = list_topic(store, "churn")
    (copy,) = (each for each in read_copies(store, listed).segments if each.end_offset == 919)
    assert state(read_indexes(store, copy)[IndexType.PRODUCER_SNAPSHOT] or b"") == state(churn.expected[919])
    again = tiersnap("tier", churn.logs, *words(churn), *NOW, *EXPIRY, *ALL_OF_IT, "--replace", "--apply")
    assert_said(again, 0)
    assert "lost" not in again.err


def test_run_makes_what_kafka_says_of_the_whole_log(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    runner = Runner(tmp_path, at.logs, remote=str(at.remote))
    ran = runner(replace=True, as_of=None)
    assert (ran.errors, ran.segments_uploaded) == ([], 1)
    (made,) = (data for key, data in runner.objects().items() if key.startswith("snapshots/") and "919" in key)
    assert state(made) == state(at.expected[919])
    again = runner(replace=True, as_of=None)
    assert again.did_nothing


def test_verify_judges_nothing_until_remote_storage_is_asked(churn: PoisonedTier) -> None:
    ran = tiersnap("verify", churn.logs, *NOW)
    command = f"tiersnap verify {churn.logs}"
    assert_said(ran, 0, f"3 snapshots are not compared, because the logs begin in remote storage; next: {command}")
    assert {row["verdict"] for row in ran.rows} == {"NOT_COMPARED"}
    assert json.loads(ran.out)["result"]["not_compared"] == 3
    asked = tiersnap("verify", churn.logs, *words(churn), *NOW)
    assert_said(asked, 4, "0 of 3 snapshots agree with the log")
    files = [row for row in asked.rows if "lacking" in row]
    assert {row["verdict"] for row in files} == {"SUSPECT"}
    assert [row["lacking"] for row in files] == [326, 325, 325]


def test_simulate_predicts_nothing_until_remote_storage_is_asked(churn: PoisonedTier) -> None:
    ran = tiersnap("simulate", churn.logs, "--broker", "4.1", *NOW)
    result = json.loads(ran.out)["result"]
    assert_said(ran, 0, "churn-0: not compared", "--remote s3://bucket/prefix")
    assert (ran.rows, result["not_compared"]) == ([], 1)
    assert result["summary"] == "1 partition is not simulated, because the start of the log is in remote storage."
    asked = tiersnap("simulate", churn.logs, "--broker", "4.1", *words(churn), *NOW)
    assert_said(asked, 0)
    assert "it would lack 325 of 375 producers" in json.loads(asked.out)["result"]["summary"]


def test_risk_reckons_nothing_where_the_log_begins_in_remote_storage(churn: PoisonedTier) -> None:
    ran = tiersnap("simulate", "--risk", churn.logs)
    assert_said(
        ran,
        0,
        "snapshots not compared with the log: 1 partition",
        f"next: tiersnap verify {churn.logs}",
        "--remote s3://bucket/prefix",
    )
    assert ran.rows == []


@pytest.mark.parametrize("command", [("producers",), ("transactions", "find-hanging")])
def test_producers_and_find_hanging_say_what_they_did_not_compare(
    churn: PoisonedTier, command: tuple[str, ...]
) -> None:
    """They say what a broker knows; that it is right is another question."""
    ran = tiersnap(*command, churn.logs, *NOW, "--topic", "churn")
    assert_said(
        ran,
        0,
        "snapshots not compared with the log: 1 partition",
        f"next: tiersnap verify {churn.logs}",
        "--remote s3://bucket/prefix",
    )


def test_repair_starts_nothing_until_remote_storage_is_asked(churn: PoisonedTier) -> None:
    ran = tiersnap("repair", churn.logs, *NOW)
    assert_said(ran, 0, "2 snapshots are not compared", f"next: tiersnap repair {churn.logs}", "--remote")
    assert "are right" not in ran.err
    assert {row["action"] for row in ran.rows} == {"NOT_COMPARED"}
    (churn.folder / f"{919:020d}.snapshot").unlink()
    assert_said(
        tiersnap("repair", churn.logs, *NOW, "--apply"),
        4,
        "1 snapshot cannot be computed",
        "--remote s3://bucket/prefix",
    )
    assert 919 not in churn.snapshots()


def test_scan_and_doctor_name_the_command_that_compares(churn: PoisonedTier) -> None:
    command, remote = f"tiersnap verify {churn.logs}", "--remote s3://bucket/prefix"
    now = "--now 2026-11-21T12:45:00+00:00"
    assert_said(tiersnap("scan", churn.logs, *NOW), 0, "not compared", f"{command} {now} {remote}")
    ran = tiersnap("doctor", churn.logs)
    assert any(line.startswith(f"{command} {remote}") for line in commands_of(json.loads(ran.out)["result"]["next"]))


def test_scan_and_doctor_say_that_another_place_holds_nothing_of_the_log(churn: PoisonedTier, tmp_path: Path) -> None:
    _, remote, _, layout = words(churn)
    (tmp_path / "elsewhere").mkdir()
    (other,) = {*LAYOUTS} - {layout}
    elsewhere = ("--remote", tmp_path / "elsewhere"), "the log begins in remote storage, but"
    for place, said in (elsewhere, (("--remote", remote, "--layout", other), "a location has only one layout")):
        for command in (("scan", churn.logs, *NOW), ("doctor", churn.logs)):
            ran = tiersnap(*command, *place)
            assert ran.exit_code == 4
            assert said in ran.out


def test_doctor_names_the_place_as_it_was_given(churn: PoisonedTier) -> None:
    ran = tiersnap("doctor", churn.logs, *words(churn), "--region", "eu-north-1")
    first, *_ = commands_of(json.loads(ran.out)["result"]["next"])
    assert tiersnap(*shlex.split(first)[1:], *NOW).exit_code == 4, first
    assert first.endswith("--region eu-north-1")


@pytest.mark.parametrize("damage", [b"\x00\x01garbage", b""])
def test_damage_is_never_excused_by_a_beginning_that_is_remote(churn: PoisonedTier, damage: bytes) -> None:
    (churn.folder / f"{919:020d}.snapshot").write_bytes(damage)
    assert tiersnap("verify", churn.logs, *NOW).exit_code == 5
    assert tiersnap("scan", churn.logs, *NOW).exit_code == 5


def test_verify_says_suspect_of_what_contradicts_the_local_files(churn: PoisonedTier) -> None:
    (churn.folder / f"{919:020d}.snapshot").write_bytes(EMPTY)
    ran = tiersnap("verify", churn.logs, *NOW)
    assert_said(ran, 4)
    assert [(row["offset"], row["verdict"]) for row in ran.rows][1] == (919, "SUSPECT")


def test_a_tier_that_no_replica_poisoned_is_right_and_says_so(tmp_path: Path) -> None:
    right = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    ran = tiersnap("verify", right.logs, *words(right), *NOW, "--strict")
    assert_said(ran, 0, "2 of 2 snapshots agree with the log")
    assert "computed from" not in ran.err
    assert tiersnap("repair", right.logs, *words(right), *NOW).rows == []
    assert tiersnap("tier", right.logs, *words(right), *NOW, *ALL_OF_IT, "--apply").rows[0]["uploaded"] == 1


def refusals(at: PoisonedTier) -> list[Ran]:
    (at.folder / f"{919:020d}.snapshot").unlink(missing_ok=True)
    before = {path: path.stat().st_size for path in at.remote.rglob("*") if path.is_file()}
    ran = [
        tiersnap("repair", at.logs, *words(at), *NOW, "--replace", "--apply"),
        tiersnap("verify", at.logs, *words(at), *NOW),
        tiersnap("simulate", at.logs, *words(at), *NOW),
        tiersnap("tier", at.logs, *words(at), *NOW, "--replace"),
        tiersnap("tier", at.logs, *words(at), *NOW, "--replace", "--apply"),
    ]
    assert not [path for path in at.remote.rglob("*.log") if path not in before]
    assert 919 not in at.snapshots()
    return ran


@pytest.mark.parametrize("lost", ["00000000000000000574-*.log", "00000000000000000000-*", "*"])
def test_where_the_tier_does_not_lead_to_a_good_snapshot_nothing_is_derived(churn: PoisonedTier, lost: str) -> None:
    for path in (path for path in churn.remote.rglob(lost) if path.is_file()):
        path.unlink()
    if lost.startswith("00000000000000000000"):
        for path in churn.remote.rglob("*.indexes"):
            path.write_bytes(bytes(path.stat().st_size))
        for path in churn.remote.rglob("*.snapshot"):
            path.write_bytes(b"damaged")
    for ran in refusals(churn):
        assert_said(ran, 5 if "remote segments are sound" in ran.err else 4)


def test_a_wrong_layout_is_an_error_and_not_nothing_to_do(churn: PoisonedTier, tmp_path: Path) -> None:
    other = LAYOUTS[not (churn.remote / "kafka-tiered-storage").exists()]
    for command in ("repair", "verify", "simulate", "tier"):
        ran = tiersnap(command, churn.logs, "--remote", churn.remote, "--layout", other, *NOW)
        assert_said(ran, 4, "a location has only one layout")
        assert "nothing to" not in ran.err
    run = Runner(tmp_path, churn.logs, remote=str(churn.remote), layout=open_layout(other))(as_of=None)
    assert ["a location has only one layout" in each for each in run.errors] == [True]
    assert run.segments_uploaded == 0


def test_tier_names_another_place_although_nothing_is_to_be_tiered(tmp_path: Path) -> None:
    """What is left of the log is its active segment; any other command asks for the state before it."""
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=8)
    (tmp_path / "elsewhere").mkdir()
    for words in ((), ("--apply",)):
        ran = tiersnap("tier", at.logs, "--remote", tmp_path / "elsewhere", *NOW, *words)
        assert_said(ran, 4, "churn-0: the log begins in remote storage, but")
        assert "nothing to do" not in ran.err
        assert tiersnap("tier", at.logs, "--remote", at.remote, *NOW, *words).exit_code == 0
    run = Runner(tmp_path, at.logs, remote=str(tmp_path / "elsewhere"))(as_of=None)
    assert [row["lacks_beginning"] for row in run.listed] == [True]
    run = Runner(tmp_path / "right", at.logs, remote=str(at.remote))(as_of=None)
    assert [row["lacks_beginning"] for row in run.listed] == [False]


def test_copies_of_another_lineage_start_nothing(churn: PoisonedTier) -> None:
    (churn.folder / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    for ran in refusals(churn):
        assert_said(ran, 4)


def test_producers_that_have_expired_may_be_missing_in_the_tier(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    later = ("--now", "2026-11-23T12:45:00Z")
    ran = tiersnap("verify", at.logs, *words(at), *later)
    assert_said(ran, 0, "3 of 3 snapshots agree")
    assert "computed from" not in ran.err


def test_a_transaction_that_stays_open_is_not_lost_with_a_rebuilt_replica(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "hanging-0", rebuilt=3, local_from=4)
    assert 389 not in state(at.tiered[964])
    ran = tiersnap("repair", at.logs, *words(at), "--now", "2027-11-21T12:45:00Z", *EXPIRY, "--replace", "--apply")
    assert_said(ran, 0, "lacks 1 active producer of the snapshot at offset 721")
    assert state(at.snapshots()[1205]) == state(at.expected[1205])


def test_repair_goes_on_from_a_good_snapshot_when_the_tier_lost_its_start(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    for path in at.remote.rglob("00000000000000000[0-3]*"):
        path.unlink()
    ran = tiersnap("repair", at.logs, *words(at), *NOW, *EXPIRY, "--replace", "--apply")
    assert_said(ran, 0)
    assert state(at.snapshots()[919]) == state(at.expected[919])
    shutil.rmtree(at.remote)


def test_scan_and_doctor_doubt_no_place_that_holds_something(churn: PoisonedTier) -> None:
    """A checkpoint may be older than what retention took of a log that was never tiered."""
    never = churn.logs / "churn-1"
    shutil.copytree(churn.folder, never)
    checkpoint = churn.logs / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n2\nchurn 0 0\nchurn 1 0\n")
    for command in (("scan", churn.logs, *NOW), ("doctor", churn.logs)):
        assert "has no segment of it" not in tiersnap(*command, *words(churn)).out


def test_verify_prints_the_files_and_the_remote_segments_as_two_tables(churn: PoisonedTier) -> None:
    ran = tiersnap("verify", churn.logs, *words(churn), *NOW, output="table")
    assert ran.exit_code == 4
    headings = [line for line in ran.out.splitlines() if "verdict" in line]
    assert ["offset" in headings[0].split(), "segment id" in headings[1]] == [True, True]
    assert len(headings) == 2


def test_verify_ends_as_the_files_do_beside_remote_storage_without_their_segments(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=0)
    (tmp_path / "elsewhere").mkdir()
    ran = tiersnap("verify", at.logs, "--remote", tmp_path / "elsewhere", *NOW)
    assert_said(ran, tiersnap("verify", at.logs, *NOW).exit_code, "no remote segments of these partitions")
