"""A log whose first segments are in remote storage alone: the state where its files begin is known there, or here.

The answer is always the one of the whole log, folded before retention took its beginning.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference.command import Ran, tiersnap
from tests.reference.log_builder import data_batch, marker, write_partition
from tests.reference.tiered import tier as copy_to_tier
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats import snapshot_file

pytestmark = pytest.mark.unit

SEGMENTS = {
    0: [data_batch(0, 10, 1, 0, 0)],
    10: [data_batch(10, 9, 2, 0, 0, transactional=True), marker(19, 2, 0, 0, commit=True)],
    20: [data_batch(20, 10, 3, 0, 0)],
    30: [data_batch(30, 10, 3, 0, 10)],
    40: [data_batch(40, 5, 3, 0, 20)],
}
EMPTY = bytes.fromhex("000148674bc700000000")
LAYOUTS = ["aiven", "local-tiered-storage"]


def tier(source: Path, remote: Path, *words: str | Path) -> Ran:
    return tiersnap("tier", source, "--remote", remote, "--now", "2023-11-15T00:00:00Z", "--apply", *words)


@pytest.fixture(name="whole")
def fixture_whole(tmp_path: Path) -> dict[int, bytes]:
    """Snapshots of the whole log by offset."""
    write_partition(tmp_path / "whole", "orders", 0, SEGMENTS, high_watermark=45, indexes=True)
    assert tiersnap("repair", tmp_path / "whole", "--all", "--out", tmp_path / "out").exit_code == 0
    found = snapshots_in(tmp_path / "out")
    assert snapshot_file.decode(found[40])["producer_id"].tolist() == [1, 2, 3]
    return found


def as_brokers_copied(tmp_path: Path, layout: str) -> Path:
    """Remote storage with the first two segments, and nothing that says that tiersnap made them."""
    first = {base: SEGMENTS[base] for base in (0, 10, 20)}
    write_partition(tmp_path / "before", "orders", 0, first, high_watermark=30, indexes=True)
    assert tier(tmp_path / "before", tmp_path / "remote", "--layout", layout).exit_code == 0
    without_claims(tmp_path / "remote")
    return tmp_path / "remote"


def without_claims(remote: Path) -> None:
    for path in remote.rglob("*"):
        if path.is_file() and b'"finished"' in path.read_bytes():
            path.unlink()


def shortened(tmp_path: Path, *, checkpoint: int | None = 0, snapshots: dict[int, bytes] | None = None) -> Path:
    """The log directory after local retention."""
    left = {base: SEGMENTS[base] for base in (20, 30, 40)}
    write_partition(
        tmp_path / "logs",
        "orders",
        0,
        left,
        snapshots=snapshots or {},
        high_watermark=45,
        log_start_offset=checkpoint,
        leader_epochs=[(0, 0)],
        indexes=True,
    )
    return tmp_path / "logs"


def snapshots_in(folder: Path) -> dict[int, bytes]:
    """Snapshots below a log directory by offset, or, in remote storage, those that tiersnap computed."""
    return {int(path.stem): path.read_bytes() for path in folder.rglob("*.snapshot") if path.stem.isdigit()}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("checkpoint", [0, None])
def test_the_state_is_that_of_the_copy_which_ends_where_the_files_begin(
    tmp_path: Path, whole: dict[int, bytes], layout: str, checkpoint: int | None
) -> None:
    remote = as_brokers_copied(tmp_path, layout)
    before = snapshots_in(remote)
    ran = tier(shortened(tmp_path, checkpoint=checkpoint), remote, "--layout", layout)
    assert ran.exit_code == 0, ran.err
    made = {offset: data for offset, data in snapshots_in(remote).items() if offset not in before}
    assert made == {offset: whole[offset] for offset in (30, 40)}
    (manifest,) = [path for path in remote.rglob("manifest-*.json") if b"COMPUTED_FROM_SNAPSHOT" in path.read_bytes()]
    assert manifest.read_bytes().count(b"COMPUTED_FROM_SNAPSHOT") == 2


def test_what_was_made_so_is_where_the_next_tier_goes_on(tmp_path: Path, whole: dict[int, bytes]) -> None:
    remote = as_brokers_copied(tmp_path, "aiven")
    short = {base: SEGMENTS[base] for base in (20, 30)}
    words = {"log_start_offset": 0, "high_watermark": 40, "leader_epochs": [(0, 0)], "indexes": True}
    folder = write_partition(tmp_path / "logs", "orders", 0, short, **words)
    assert tier(tmp_path / "logs", remote).exit_code == 0
    shortened(tmp_path)
    (folder / f"{20:020d}.log").write_bytes(bytes((folder / f"{20:020d}.log").stat().st_size))
    assert tier(tmp_path / "logs", remote).exit_code == 0, "the first file is not read again"
    assert snapshots_in(remote)[40] == whole[40]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_empty_file_where_the_files_begin_says_less_than_the_copy_and_is_not_taken(
    tmp_path: Path, whole: dict[int, bytes], layout: str
) -> None:
    remote = as_brokers_copied(tmp_path, layout)
    assert tier(shortened(tmp_path, snapshots={20: EMPTY}), remote, "--layout", layout).exit_code == 0
    assert snapshots_in(remote)[40] == whole[40]


def test_a_file_that_says_more_than_the_copy_is_taken(tmp_path: Path, whole: dict[int, bytes]) -> None:
    remote = as_brokers_copied(tmp_path, "local-tiered-storage")
    for path in remote.rglob("*"):
        if path.is_file() and path.read_bytes() == whole[20]:
            path.write_bytes(EMPTY)
    logs = shortened(tmp_path, snapshots={20: whole[20]})
    assert tier(logs, remote, "--layout", "local-tiered-storage").exit_code == 0
    assert snapshots_in(remote)[40] == whole[40]


@pytest.mark.parametrize("file", [EMPTY, "of the whole log"], ids=["empty", "right"])
def test_repair_believes_no_file_where_the_files_begin_when_not_asked(
    tmp_path: Path, whole: dict[int, bytes], file: bytes | str
) -> None:
    logs = shortened(tmp_path, snapshots={20: whole[20] if isinstance(file, str) else file})
    ran = tiersnap("repair", logs, "--above-newest", "--apply")
    assert ran.exit_code == 4, ran.err
    assert {row["action"] for row in ran.rows} == {"NO_START"}
    assert snapshots_in(logs).keys() == {20}


def test_repair_adopts_no_file_that_knows_more_when_not_asked(tmp_path: Path, whole: dict[int, bytes]) -> None:
    logs = shortened(tmp_path, snapshots={30: whole[30]})
    ran = tiersnap("repair", logs, "--above-newest", "--apply")
    assert ran.exit_code == 4, ran.err
    assert [(row["offset"], row["action"]) for row in ran.rows] == [(30, "NOT_COMPARED"), (40, "NO_START")]
    assert {(row["producers"], row["provenance"]) for row in ran.rows} == {(None, None)}, "nothing right was computed"


@pytest.mark.parametrize("words", [[], ["--replace"], ["--all"]])
def test_without_any_start_nothing_is_made_and_repair_says_how_to_get_one(tmp_path: Path, words: list[str]) -> None:
    logs = shortened(tmp_path, snapshots={30: b"\x00\x01garbage"})
    target = ["--out", tmp_path / "out"] if "--all" in words else ["--above-newest", "--apply"]
    ran = tiersnap("repair", logs, *words, *target)
    assert ran.exit_code == (4 if words else 5), ran.err  # one that is not replaced is CORRUPT
    assert "--remote s3://bucket/prefix" in ran.err
    assert {row["action"] for row in ran.rows} <= {"NO_START", "NEEDS_REPLACE"}
    assert "the log begins in remote storage, which was not read" in ran.rows[-1]["reason"]
    assert not list((tmp_path / "out").rglob("*.snapshot"))
    refused = tier(logs, tmp_path / "remote", *words)
    assert refused.exit_code == 5
    assert not snapshots_in(tmp_path / "remote")


UNREADABLE = {"no checkpoint": b"\x00\xff", "five nines too many": b"0\n1\norders 0 99999999999999999999999\n"}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_where_the_checkpoint_of_log_starts_cannot_be_read_nothing_is_made_from_the_files_alone(
    tmp_path: Path, content: bytes
) -> None:
    logs = shortened(tmp_path)
    (logs / "log-start-offset-checkpoint").write_bytes(content)
    ran = tiersnap("repair", logs, "--above-newest", "--apply")
    assert ran.exit_code == 5, ran.err
    assert {row["action"] for row in ran.rows} == {"NO_START"}
    assert "the broker writes the file again within a minute" in ran.err
    assert ran.err.count(str(logs / "log-start-offset-checkpoint")) == 1
    assert not list(logs.rglob("*.snapshot"))


def test_where_the_checkpoint_of_log_starts_cannot_be_read_remote_storage_says_where_the_log_begins(
    tmp_path: Path, whole: dict[int, bytes]
) -> None:
    remote = as_brokers_copied(tmp_path, "aiven")
    before = snapshots_in(remote)
    logs = shortened(tmp_path)
    (logs / "log-start-offset-checkpoint").write_bytes(b"\x00\xff")
    tier(logs, remote)
    assert {offset: data for offset, data in snapshots_in(remote).items() if offset not in before} == {
        offset: whole[offset] for offset in (30, 40)
    }
    own = shortened(tmp_path / "own")
    (own / "log-start-offset-checkpoint").write_bytes(b"\x00\xff")
    ran = tier(own, tmp_path / "nothing")
    assert ran.exit_code == 5 and ran.rows[0]["verdicts"]["UNKNOWN_LOG_START"] == 2
    assert not snapshots_in(tmp_path / "nothing"), "where nothing is there, nothing is known"


def folded_from_the_files_alone(tmp_path: Path) -> dict[int, bytes]:
    """What a broker writes that lost all snapshots: right by what it sees, and without the producers from before."""
    own = shortened(tmp_path / "alone", checkpoint=20)
    assert tiersnap("repair", own, "--all", "--out", tmp_path / "partial").exit_code == 0
    found = {int(path.stem): path.read_bytes() for path in (tmp_path / "partial").rglob("*.snapshot")}
    assert snapshot_file.decode(found[40])["producer_id"].tolist() == [3]
    return found


def test_a_file_that_equals_the_fold_of_the_files_alone_is_not_trusted(tmp_path: Path, whole: dict[int, bytes]) -> None:
    partial = folded_from_the_files_alone(tmp_path)
    logs = shortened(tmp_path, snapshots={offset: partial[offset] for offset in (30, 40)})
    assert {row["verdict"] for row in tiersnap("verify", logs).rows} == {"NOT_COMPARED"}
    assert {row["action"] for row in tiersnap("repair", logs).rows} == {"NOT_COMPARED"}
    refused = tier(logs, tmp_path / "nothing")
    assert refused.exit_code == 4
    assert "UNVERIFIED_SNAPSHOT" in refused.err
    assert "the location has no complete remote segment of orders-0" in refused.err

    remote = as_brokers_copied(tmp_path, "aiven")
    assert tier(logs, remote).exit_code == 4, "against the copy's state they lack producers"
    assert tier(logs, remote, "--replace").exit_code == 0
    assert {offset: snapshots_in(remote)[offset] for offset in (30, 40)} == {
        offset: whole[offset] for offset in (30, 40)
    }


def test_segments_of_a_replica_that_began_later_start_nothing(tmp_path: Path, whole: dict[int, bytes]) -> None:
    remote = as_brokers_copied(tmp_path, "aiven")
    partial = folded_from_the_files_alone(tmp_path)
    short = {base: SEGMENTS[base] for base in (20, 30)}
    words = {"high_watermark": 40, "leader_epochs": [(0, 0)], "indexes": True}
    write_partition(tmp_path / "wrong", "orders", 0, short, log_start_offset=20, **words)
    assert tier(tmp_path / "wrong", remote).exit_code == 0
    assert snapshots_in(remote)[30] == partial[30], "right by what that replica has"
    ran = tier(shortened(tmp_path), remote)
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(remote)[40] == whole[40]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_that_begin_inside_a_copy_begin_with_the_state_at_its_end(
    tmp_path: Path, whole: dict[int, bytes], layout: str
) -> None:
    before = {0: SEGMENTS[0], 10: SEGMENTS[10] + SEGMENTS[20], 30: SEGMENTS[30]}
    write_partition(tmp_path / "before", "orders", 0, before, high_watermark=40, indexes=True)
    remote = tmp_path / "remote"
    assert tier(tmp_path / "before", remote, "--layout", layout).exit_code == 0
    without_claims(remote)
    ran = tier(shortened(tmp_path), remote, "--layout", layout)
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(remote)[40] == whole[40]


def test_a_copy_that_lies_below_the_log_start_says_nothing(tmp_path: Path) -> None:
    remote = as_brokers_copied(tmp_path, "aiven")
    partial = folded_from_the_files_alone(tmp_path)
    assert tier(shortened(tmp_path, checkpoint=20), remote).exit_code == 0
    assert snapshots_in(remote)[40] == partial[40]


def test_what_a_run_stored_is_installed_where_repair_can_make_nothing(tmp_path: Path, whole: dict[int, bytes]) -> None:
    remote = as_brokers_copied(tmp_path, "aiven")
    logs = shortened(tmp_path)
    assert tier(logs, remote).exit_code == 0
    ran = tiersnap("install", "--remote", remote, "--to", logs, "--above-newest", "--apply")
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(logs) == {offset: whole[offset] for offset in (30, 40)}


def test_where_the_log_itself_begins_at_its_files_what_came_before_is_gone(tmp_path: Path) -> None:
    ran = tiersnap("repair", shortened(tmp_path, checkpoint=20), "--above-newest", "--apply")
    assert ran.exit_code == 0
    assert {row["provenance"] for row in ran.rows} == {"COMPUTED_FROM_LOG_START"}


@pytest.mark.parametrize("damage", [lambda data: data[:-1] + b"\x01", lambda data: b"", lambda data: data[:5]])
def test_tier_computes_a_damaged_remote_snapshot_from_the_one_before(
    tmp_path: Path, whole: dict[int, bytes], damage: Callable[[bytes], bytes]
) -> None:
    remote = as_brokers_copied(tmp_path, "local-tiered-storage")
    for path in remote.rglob("*"):
        if path.is_file() and path.read_bytes() == whole[20]:
            path.write_bytes(damage(whole[20]))
    ran = tier(shortened(tmp_path), remote, "--layout", "local-tiered-storage")
    assert ran.exit_code == 0, ran.err
    assert "cannot be read" in ran.err
    assert snapshots_in(remote)[40] == whole[40]


def repair(logs: Path, *words: str | Path) -> Ran:
    return tiersnap("repair", logs, "--above-newest", "--apply", *words)


def printed_words(ran: Ran) -> list[str]:
    """Words of the command that was printed as the next one, without the program."""
    (line,) = (line for line in ran.err.splitlines() if "next: tiersnap repair" in line)
    return shlex.split(line.partition("next: tiersnap ")[2].partition(" (")[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("checkpoint", [0, None])
def test_what_repair_says_to_type_next_makes_the_snapshots_of_the_whole_log(
    tmp_path: Path, whole: dict[int, bytes], layout: str, checkpoint: int | None
) -> None:
    remote = as_brokers_copied(tmp_path, layout)
    logs = shortened(tmp_path, checkpoint=checkpoint)
    if checkpoint is None:
        (logs / "log-start-offset-checkpoint").write_text("nonsense")
    damage = 0 if checkpoint == 0 else 5
    ran = repair(logs)
    assert (ran.exit_code, snapshots_in(logs)) == (damage or 4, {})
    words = [str(remote) if word == "s3://bucket/prefix" else word for word in printed_words(ran)]
    done = tiersnap(*words, "--layout", layout)
    assert done.exit_code == damage, done.err
    assert snapshots_in(logs) == {offset: whole[offset] for offset in (30, 40)}
    assert {row["provenance"] for row in done.rows} == {"COMPUTED_FROM_SNAPSHOT"}
    assert repair(logs, "--remote", remote, "--layout", layout).rows == []


def test_a_snapshot_that_is_not_what_its_claim_says_starts_nothing(tmp_path: Path, whole: dict[int, bytes]) -> None:
    first = {base: SEGMENTS[base] for base in (0, 10, 20)}
    write_partition(tmp_path / "before", "orders", 0, first, high_watermark=30, indexes=True)
    remote, words = tmp_path / "remote", ("--layout", "local-tiered-storage")
    assert tier(tmp_path / "before", remote, *words).exit_code == 0
    swapped = [path for path in remote.rglob("*.snapshot") if path.read_bytes() == whole[20]]
    for path in swapped:
        path.write_bytes(whole[10])
    logs = shortened(tmp_path)
    ran = repair(logs, "--remote", remote, *words)
    assert ran.exit_code == 0, ran.err
    assert "orders-0: " in ran.err and "the claim of its segment says" in ran.err
    assert snapshots_in(logs) == {offset: whole[offset] for offset in (30, 40)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_empty_file_where_the_files_begin_is_not_taken_by_a_repair_that_asks(
    tmp_path: Path, whole: dict[int, bytes], layout: str
) -> None:
    remote = as_brokers_copied(tmp_path, layout)
    logs = shortened(tmp_path, snapshots={20: EMPTY})
    assert repair(logs, "--remote", remote, "--layout", layout).exit_code == 0
    assert snapshots_in(logs)[40] == whole[40]


def as_a_leader_copied_that_rolled_elsewhere(tmp_path: Path, snapshot: bytes | None = None) -> Path:
    """Remote storage in which no copy ends where the files begin, but one at 30; with `snapshot` as its snapshot."""
    before = {0: SEGMENTS[0], 10: SEGMENTS[10] + SEGMENTS[20], 30: SEGMENTS[30]}
    write_partition(tmp_path / "before", "orders", 0, before, high_watermark=40, indexes=True)
    remote = tmp_path / "remote"
    assert tier(tmp_path / "before", remote, "--layout", "local-tiered-storage").exit_code == 0
    without_claims(remote)
    (path,) = remote.glob(f"kafka-tiered-storage/*/{10:020d}-*.snapshot")
    assert snapshot_file.decode(path.read_bytes())["producer_id"].tolist() == [1, 2, 3]
    if snapshot is not None:
        path.write_bytes(snapshot)
    return remote


LOCAL = ("--layout", "local-tiered-storage")


def test_a_copy_that_ends_behind_the_first_file_is_believed_where_the_files_agree(
    tmp_path: Path, whole: dict[int, bytes]
) -> None:
    remote = as_a_leader_copied_that_rolled_elsewhere(tmp_path)
    logs = shortened(tmp_path)
    ran = repair(logs, "--remote", remote, *LOCAL)
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(logs) == {30: whole[30], 40: whole[40]}


def test_of_several_copies_the_one_that_ends_where_the_files_begin_is_the_start(
    tmp_path: Path, whole: dict[int, bytes]
) -> None:
    before = {base: SEGMENTS[base] for base in (0, 10, 20, 30)}
    write_partition(tmp_path / "before", "orders", 0, before, high_watermark=40, indexes=True)
    remote = tmp_path / "remote"
    assert tier(tmp_path / "before", remote, *LOCAL).exit_code == 0
    without_claims(remote)
    (path,) = remote.glob(f"kafka-tiered-storage/*/{20:020d}-*.snapshot")
    path.write_bytes(EMPTY)
    logs = shortened(tmp_path)
    ran = repair(logs, "--remote", remote, *LOCAL, "--now", "2023-11-15T00:00:00Z")
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(logs) == {30: whole[30], 40: whole[40]}


@pytest.mark.parametrize("snapshot", [EMPTY, "of 20"], ids=["empty", "of the offset 20"])
def test_repair_computes_the_state_when_a_copy_lacks_what_it_holds(
    tmp_path: Path, whole: dict[int, bytes], snapshot: bytes | str
) -> None:
    remote = as_a_leader_copied_that_rolled_elsewhere(tmp_path, whole[20] if isinstance(snapshot, str) else snapshot)
    logs = shortened(tmp_path)
    at_the_time = ("--now", "2023-11-15T00:00:00Z")
    ran = repair(logs, "--remote", remote, *LOCAL, *at_the_time)
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(logs) == {30: whole[30], 40: whole[40]}
    assert tier(shortened(tmp_path / "other"), remote, *LOCAL).exit_code == 0
    assert snapshots_in(remote)[40] == whole[40]


def test_what_a_copy_behind_the_first_file_lacks_because_it_had_expired_is_kept(
    tmp_path: Path, whole: dict[int, bytes]
) -> None:
    remote = as_a_leader_copied_that_rolled_elsewhere(tmp_path, whole[20])
    logs = shortened(tmp_path)
    ran = repair(logs, "--remote", remote, *LOCAL, "--now", "2023-11-18T00:00:00Z")
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(logs) == {30: whole[30], 40: whole[40]}


@pytest.mark.parametrize("checkpoint", [0, None])
@pytest.mark.parametrize("wrong", ["place", "layout", "lineage", "object"])
def test_a_repair_that_finds_no_start_writes_nothing_and_says_why(
    tmp_path: Path, wrong: str, checkpoint: int | None
) -> None:
    remote, words = as_brokers_copied(tmp_path, "aiven"), ()
    logs = shortened(tmp_path, checkpoint=checkpoint)
    if checkpoint is None:
        (logs / "log-start-offset-checkpoint").write_text("nonsense")
    match wrong:
        case "place":
            remote = tmp_path / "nothing"
            remote.mkdir()
        case "layout":
            words = ("--layout", "local-tiered-storage")
        case "lineage":
            (logs / "orders-0/leader-epoch-checkpoint").unlink()
        case "object":
            for path in remote.rglob("*00000000000000000010-*.indexes"):
                path.unlink()
    ran = repair(logs, "--remote", remote, *words)
    assert (ran.exit_code, snapshots_in(logs)) == (4 if checkpoint == 0 else 5, {})
    if wrong == "layout":
        assert "orders-0: remote segments exist in this location in the layout aiven, but this run uses" in ran.err
    elif checkpoint is None:
        assert "log start of orders-0 unknown: log-start-offset-checkpoint cannot be read" in ran.err
    else:
        assert "orders-0: no producer state at the first local offset 20: " in ran.err
        assert "give --remote, its prefix and --layout as in server.properties of the brokers" in ran.err


def test_a_copy_of_ours_whose_claim_does_not_vouch_for_its_snapshot_is_no_start(tmp_path: Path) -> None:
    # It was made when the log began at 10, so it lacks what wrote below; now the log is said to begin at 0.
    begun = {base: SEGMENTS[base] for base in (10, 20)}
    write_partition(
        tmp_path / "before",
        "orders",
        0,
        begun,
        high_watermark=30,
        log_start_offset=10,
        leader_epochs=[(0, 0)],
        indexes=True,
    )
    remote = tmp_path / "remote"
    assert tier(tmp_path / "before", remote).exit_code == 0
    logs = shortened(tmp_path)
    ran = repair(logs, "--remote", remote)
    assert (ran.exit_code, snapshots_in(logs)) == (4, {})
    assert "because the claim of its segment does not mark it as trusted" in ran.err
    (claim,) = (path for path in remote.rglob("*") if path.is_file() and b'"finished"' in path.read_bytes())
    claim.write_bytes(b"{}")
    assert repair(logs, "--remote", remote).exit_code == 4, "nobody knows whose copy it is"
    claim.unlink()
    assert repair(logs, "--remote", remote).exit_code == 0, "a broker's, for all that is known"


def test_a_copy_of_ours_of_a_log_that_begins_where_it_began_then_is_a_start(tmp_path: Path) -> None:
    begun = {base: SEGMENTS[base] for base in (10, 20, 30, 40)}
    words = {"high_watermark": 45, "log_start_offset": 10, "leader_epochs": [(0, 0)], "indexes": True}
    write_partition(tmp_path / "trimmed", "orders", 0, begun, **words)
    assert tiersnap("repair", tmp_path / "trimmed", "--all", "--out", tmp_path / "right").exit_code == 0
    shutil.rmtree(tmp_path / "trimmed/orders-0")
    write_partition(
        tmp_path / "trimmed", "orders", 0, {base: begun[base] for base in (10, 20)}, **{**words, "high_watermark": 30}
    )
    assert tier(tmp_path / "trimmed", tmp_path / "remote").exit_code == 0
    logs = shortened(tmp_path, checkpoint=10)
    assert repair(logs).exit_code == 4
    assert repair(logs, "--remote", tmp_path / "remote").exit_code == 0
    right = snapshots_in(tmp_path / "right")
    assert snapshots_in(logs) == {offset: right[offset] for offset in (30, 40)}
    assert snapshot_file.decode(right[30])["producer_id"].tolist() == [2, 3]


def test_remote_storage_that_does_not_answer_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = shortened(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    ran = repair(logs, "--remote", "s3://bucket", "--endpoint-url", "http://127.0.0.1:9")
    assert (ran.exit_code, snapshots_in(logs)) == (3, {})


def test_a_log_that_begins_at_its_files_is_not_asked_for(tmp_path: Path) -> None:
    logs = shortened(tmp_path, checkpoint=20)
    (tmp_path / "remote").mkdir()
    ran = repair(logs, "--remote", tmp_path / "remote")
    assert ran.exit_code == 0
    assert {row["provenance"] for row in ran.rows} == {"COMPUTED_FROM_LOG_START"}


def begun_at_10(tmp_path: Path, whole: dict[int, bytes], at_30: bytes) -> Path:
    """Remote storage from 10 on, where retention has taken the rest; a leader that rolled elsewhere copied to 30."""
    rolled = {10: SEGMENTS[10] + SEGMENTS[20], 30: SEGMENTS[30], 40: SEGMENTS[40]}
    folder = write_partition(tmp_path / "before", "orders", 0, rolled, leader_epochs=[(0, 0)], indexes=True)
    store = DirectoryStore(tmp_path / "remote")
    copy_to_tier(folder, store, snapshots={30: at_30, 40: whole[40]})
    return store.root


def test_repair_starts_at_the_next_good_snapshot_of_a_trimmed_log(tmp_path: Path, whole: dict[int, bytes]) -> None:
    remote = begun_at_10(tmp_path, whole, whole[30])
    logs = shortened(tmp_path, checkpoint=10)
    ran = repair(logs, "--remote", remote, "--now", "2023-11-15T00:00:00Z")
    assert ran.exit_code == 0, ran.err
    assert snapshots_in(logs) == {30: whole[30], 40: whole[40]}


@pytest.mark.parametrize("at_30", [EMPTY, "of 20"], ids=["empty", "of the offset 20"])
def test_where_no_snapshot_of_a_trimmed_log_is_good_nothing_is_made(
    tmp_path: Path, whole: dict[int, bytes], at_30: bytes | str
) -> None:
    remote = begun_at_10(tmp_path, whole, whole[20] if isinstance(at_30, str) else at_30)
    logs = shortened(tmp_path, checkpoint=10)
    ran = repair(logs, "--remote", remote, "--now", "2023-11-15T00:00:00Z")
    assert (ran.exit_code, snapshots_in(logs)) == (4, {})
    assert "contradicts its own segment" in ran.err
