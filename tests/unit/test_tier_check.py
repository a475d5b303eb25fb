"""`tiersnap verify --remote --depth`: a tier is verified by its metadata, its snapshots, or every byte."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.reference import log_builder as lb
from tests.reference import tiered
from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.poisoned_tier import NOW, PoisonedTier, poisoned_tier
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE, decode, encode
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition

pytestmark = pytest.mark.unit

LOGS = Path(__file__).parent.parent / "data/kafka-3.9.1/logs"
LAYOUTS = ["aiven", "local-tiered-storage"]
DEPTHS = ["metadata", "snapshots", "full"]
SOUND = {"MATCHES", "EXTENDS", "NOT_COMPARED"}


@pytest.fixture(name="logs", scope="module")
def fixture_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log directories as a broker left them, but for compacted topics."""
    logs = tmp_path_factory.mktemp("disk") / "logs"
    shutil.copytree(LOGS, logs, ignore=shutil.ignore_patterns("__*", "compacted-*"))
    return logs


@pytest.fixture(name="right", params=LAYOUTS, scope="module")
def fixture_right(
    logs: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, ...]:
    """All closed segments of them, tiered; the words that name the tier."""
    store = DirectoryStore(tmp_path_factory.mktemp("right"))
    for folder in sorted(logs.glob("*-?")):
        tier(folder, store, layout=open_layout(request.param))
    return "--remote", str(store.root), "--layout", request.param


def checked(*words: str | Path, depth: str = "snapshots") -> Ran:
    return tiersnap("verify", *words, *NOW, "--depth", depth)


def verdicts(ran: Ran) -> Counter[str]:
    return Counter(row["verdict"] for row in ran.rows)


def place(of: PoisonedTier) -> tuple[str, ...]:
    return "--remote", str(of.remote), "--layout", LAYOUTS[(of.remote / "kafka-tiered-storage").exists()]


@pytest.mark.parametrize("depth", DEPTHS)
def test_verify_ends_with_0_at_every_depth_of_a_tier_that_is_right(right: tuple[str, ...], depth: str) -> None:
    assert_said(checked(*right, depth=depth), 0, "21 of 21 remote segments are sound", "plan: verify 21 segments of")


def test_verify_full_says_matches_of_every_segment_of_a_tier_that_is_right(right: tuple[str, ...]) -> None:
    ran = checked(*right, "--strict", depth="full")
    assert Counter((row["verdict"], row["compared_with"]) for row in ran.rows) == {("MATCHES", "REMOTE_LOG"): 21}


def test_verify_compares_remote_snapshots_with_the_local_log(right: tuple[str, ...], logs: Path) -> None:
    ran = checked(logs, *right, "--topic", "orders|payments|churn")
    assert {(row["verdict"], row["compared_with"]) for row in ran.rows} == {("MATCHES", "LOCAL_LOG")}
    assert {row["topic"] for row in ran.rows} == {"orders", "payments", "churn"}


def test_verify_strict_reads_segments_whose_producers_expired(right: tuple[str, ...]) -> None:
    assert {row["compared_with"] for row in checked(*right, "--strict").rows} == {"OWN_SEGMENT"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("depth", ["snapshots", "full"])
def test_verify_names_each_poisoned_snapshot_and_no_other(tmp_path: Path, depth: str, layout: str) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7, layout=layout)
    ran = checked(*place(at), depth=depth)
    assert_said(ran, 4, "5 of 7 remote segments are sound")
    suspect = [row for row in ran.rows if row["verdict"] == "SUSPECT"]
    assert [row["next_base_offset"] for row in suspect] == [685, 804]
    assert all(" 229 " in row["reason"] for row in suspect)


def test_verify_resumed_looks_into_nothing_that_an_earlier_one_told(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    first = tiersnap("verify", *place(at), *NOW, "--depth", "full", output="jsonl")
    told = tmp_path / "told.jsonl"
    lines = first.out.splitlines()
    told.write_text("\n".join([*lines[:3], lines[3][:40]]))
    ran = checked(*place(at), "--resume", told, depth="full")
    assert_said(ran, 4, "3 segments were skipped")
    assert [row["base_offset"] for row in ran.rows] == [338, 453, 574, 685]
    assert verdicts(ran) == {"EXTENDS": 2, "SUSPECT": 2}
    told.write_text(first.out)
    assert [row["verdict"] for row in checked(*place(at), "--resume", told).rows] == ["SUSPECT", "SUSPECT"]


def test_verify_resumed_looks_again_at_what_was_written_since(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    told = tmp_path / "told.jsonl"
    told.write_text(tiersnap("verify", *place(at), *NOW, output="jsonl").out)
    assert checked(*place(at), "--resume", told).rows == []
    path = sorted(at.remote.rglob("*.indexes"))[2]
    path.write_bytes(bytes(path.stat().st_size))
    ran = checked(*place(at), "--resume", told)
    assert [(row["base_offset"], row["verdict"]) for row in ran.rows] == [(222, "CORRUPT")]


@pytest.mark.parametrize("text", ["", '{"verdict": "MATCHES"}\n', '{\n  "rows": []\n}\n', "MATCHES\n"])
def test_command_refuses_a_file_that_tells_no_check(tmp_path: Path, text: str) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    told = tmp_path / "told.jsonl"
    told.write_text(text)
    page = tmp_path / "page"
    for words in (("doctor",), ("scan", "--report", page), ("tier", "--report", page, "--apply")):
        ran = tiersnap(*words, at.logs, *place(at), *NOW, "--remote-checks", told)
        assert_said(ran, 2, f"{told}: the file has no line of tiersnap verify --remote")
    assert not page.exists()
    if text:
        assert_said(
            checked(*place(at), "--resume", told), 2, f"{told}: the file has no line of tiersnap verify --remote"
        )


def test_command_refuses_remote_checks_when_no_page_tells_of_them(tmp_path: Path) -> None:
    for command in ("scan", "tier"):
        ran = tiersnap(command, tmp_path, "--remote", tmp_path / "remote", "--remote-checks", tmp_path / "told.jsonl")
        assert_said(ran, 2, "--remote-checks needs --report", "give --report FOLDER")


@pytest.mark.parametrize("text", ["", '{"topic":"churn","parti'])
def test_verify_begins_anew_when_the_first_one_told_nothing(tmp_path: Path, text: str) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    told = tmp_path / "told.jsonl"
    told.write_text(text)
    assert len(checked(*place(at), "--resume", told).rows) == 7


@pytest.mark.parametrize(("sample", "count"), [("3", 3), ("100%", 21), ("99", 21)])
def test_verify_sample_takes_so_many_segments(right: tuple[str, ...], sample: str, count: int) -> None:
    ran = checked(*right, "--sample", sample)
    assert_said(ran, 0, f"plan: verify {count} of 21 segments")
    assert len(ran.rows) == count


@pytest.mark.parametrize("sample", ["0", "1.5", "101%", "few"])
def test_verify_refuses_a_sample_that_is_none(right: tuple[str, ...], sample: str) -> None:
    assert_said(checked(*right, "--sample", sample), 2, "is not a sample")


def test_verify_names_offsets_that_no_segment_holds(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    for path in at.remote.rglob("*0222-*"):
        path.unlink()
    ran = checked(*place(at), depth="metadata")
    (row,) = (row for row in ran.rows if row["verdict"] == "MISSING")
    assert (ran.exit_code, row["segment_id"], row["base_offset"], row["next_base_offset"]) == (5, "", 222, 338)
    (index,) = at.remote.rglob("*0338-*.indexes")
    kept = index.read_bytes()
    index.unlink()
    ran = checked(*place(at), depth="metadata")
    assert sorted(row["base_offset"] for row in ran.rows if row["verdict"] == "MISSING") == [222, 338]
    index.write_bytes(kept)
    for path in at.remote.rglob("*0000-*"):
        path.unlink()  # retention takes the oldest segments
    assert verdicts(checked(*place(at), depth="metadata"))["MISSING"] == 1


@pytest.mark.parametrize(("lost", "named"), [(0, (0, 10)), (10, (10, 20)), (20, (20, 30))])
def test_verify_names_a_lost_segment_that_no_local_file_holds(
    tmp_path: Path, lost: int, named: tuple[int, int]
) -> None:
    segments = {base: [lb.data_batch(base, 10, 7, 0, base)] for base in (0, 10, 20, 30)}
    lb.write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=40, log_start_offset=0, indexes=True)
    remote = ("--remote", tmp_path / "remote")
    assert tiersnap("tier", tmp_path / "logs", *remote, *NOW, "--apply").exit_code == 0
    for path in (tmp_path / "logs" / "orders-0").iterdir():
        if path.stem.isdigit() and int(path.stem) < 30:
            path.unlink()
    assert checked(tmp_path / "logs", *remote).exit_code == 0
    for path in (tmp_path / "remote").glob(f"orders-*/0/{lost:020d}-*"):
        path.unlink()
    ran = checked(tmp_path / "logs", *remote)
    (missing,) = (row for row in ran.rows if row["verdict"] == "MISSING")
    assert (ran.exit_code, (missing["base_offset"], missing["next_base_offset"])) == (5, named)


def test_verify_says_nothing_of_a_copy_in_flight(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    (newest,) = at.remote.rglob("*0685-*.rsm-manifest")
    newest.unlink()
    assert_said(checked(*place(at), depth="metadata"), 0, "6 of 6 remote segments are sound")


def test_verify_says_not_checkable_of_encrypted_segments(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    for path in at.remote.rglob("*.rsm-manifest"):
        said = json.loads(path.read_text()) | {"encryption": {"dataKey": "a", "aad": "b"}}
        path.write_text(json.dumps(said))
    for depth in DEPTHS:
        ran = checked(*place(at), depth=depth)
        assert (ran.exit_code, verdicts(ran)) == (0, {"NOT_CHECKABLE": 7})
        assert_said(ran, 0, f"0 of 7 remote segments are sound at depth {depth}", "7 encrypted segments were not read")


def test_the_page_and_doctor_call_no_encrypted_segment_verified(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    manifests = sorted(at.remote.rglob("*.rsm-manifest"))
    for encrypted in (manifests, manifests[1:]):
        for path in manifests:
            said = json.loads(path.read_text())
            said.pop("encryption", None)
            hidden = {"encryption": {"dataKey": "a", "aad": "b"}} if path in encrypted else {}
            path.write_text(json.dumps(said | hidden))
        told, read = tmp_path / "told.jsonl", len(manifests) - len(encrypted)
        told.write_text(tiersnap("verify", *place(at), *NOW, output="jsonl").out)
        ran = tiersnap("doctor", at.logs, *place(at), "--remote-checks", told)
        (verified,) = json.loads(ran.out)["result"]["verified"]
        assert verified["sentence"].startswith(f"{read} of 7 remote segments were verified")
        assert verified["sentence"].endswith(f"{len(encrypted)} encrypted segments were not read")
        tiersnap("scan", at.logs, *place(at), *NOW, "--report", tmp_path / "page", "--remote-checks", told)
        page = (tmp_path / "page/index.html").read_text()
        assert f"{read} of 7 remote segments in 1 partition were verified" in page
        assert f"{len(encrypted)} encrypted segments could not be read" in page


def test_verify_refuses_a_key_prefix_without_a_slash(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    (folder,) = at.remote.glob("churn-*")
    folder.rename(at.remote / f"tiers{folder.name}")
    for depth in DEPTHS:
        ran = checked("--remote", at.remote, depth=depth)
        assert_said(ran, 2, "the keys of brokers begin with 'tiers', which does not end with /")


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("base", [0, 222, 685])
def test_verify_names_a_cut_manifest_and_no_neighbour(tmp_path: Path, base: int, depth: str) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    (manifest,) = at.remote.rglob(f"{base:020d}-*.rsm-manifest")
    manifest.write_bytes(manifest.read_bytes()[:-40])
    ran = checked(*place(at), "--strict", depth=depth)
    wrong = [(row["base_offset"], row["verdict"]) for row in ran.rows if row["verdict"] not in SOUND]
    assert (ran.exit_code, wrong) == (5, [(base, "CORRUPT")])


def test_verify_refuses_a_place_that_holds_nothing(tmp_path: Path) -> None:
    assert_said(checked("--remote", tmp_path), 2, "no remote segment")


def test_verify_without_logdir_needs_remote() -> None:
    assert_said(tiersnap("verify"), 2, "log directories unknown: no broker runs on this host")
    assert_said(tiersnap("verify", "--depth", "full"), 2, "remote location unknown", "--remote s3://bucket/prefix")


def test_doctor_and_the_page_say_how_much_was_verified(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    told = tmp_path / "told.jsonl"
    told.write_text(tiersnap("verify", *place(at), *NOW, output="jsonl").out)
    ran = tiersnap("doctor", at.logs, *place(at), "--remote-checks", told)
    (verified,) = json.loads(ran.out)["result"]["verified"]
    assert verified["partition"] == "churn-0"
    assert verified["sentence"].startswith("7 of 7 remote segments were verified (490.6 KiB; 7 at depth snapshots)")
    assert verified["sentence"].endswith("snapshots of 0 segments were compared with a log; 2 are not sound")
    said = tiersnap("doctor", at.logs, *place(at), output="table").out
    assert (
        f"verified remote segments are not verified yet; to verify them: tiersnap verify --remote {at.remote}"
        in " ".join(said.split())
    )

    tiersnap("scan", at.logs, *place(at), *NOW, "--report", tmp_path / "page", "--remote-checks", told)
    page = (tmp_path / "page/index.html").read_text()
    assert "7 of 7 remote segments in 1 partition were verified" in page
    assert verified["sentence"] in page


def test_verify_names_the_command_that_helps(tmp_path: Path) -> None:
    at, whole = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7), tmp_path / "whole"
    for file in ("replication", "log-start", "recovery-point"):
        shutil.copy(at.logs / f"{file}-offset-checkpoint", whole)

    def next_step(*words: str | Path) -> str:
        (line,) = [line for line in checked(*words).err.splitlines() if line.startswith("next for")]
        return line

    assert next_step(*place(at)).startswith(
        "next for SUSPECT: on a broker host that has the log: tiersnap verify LOGDIR "
    )
    assert next_step(whole, *place(at)).startswith(f"next for SUSPECT: tiersnap mend {whole} ")
    for path in at.remote.rglob("*0222-*.indexes"):
        path.unlink()
    step = next_step(whole, *place(at))
    assert step.startswith(f"next for MISSING, SUSPECT: tiersnap mend {whole} ")
    assert step.endswith(f"--bootstrap-server HOST:PORT --remote {at.remote}")


def test_verify_takes_a_claims_word_for_the_bytes_that_it_vouches_for(logs: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    assert tiersnap("tier", logs, "--remote", remote, *NOW, "--topic", "orders|churn", "--apply").exit_code == 0
    ran = checked("--remote", remote)
    assert_said(ran, 0)
    assert {(row["verdict"], row["compared_with"]) for row in ran.rows} == {("MATCHES", "CLAIM")}
    path = min(remote.rglob("*.indexes"))
    path.write_bytes(path.read_bytes().replace(b"\x00\x01", b"\x00\x02"))
    assert checked("--remote", remote).exit_code == 5


def test_verify_names_a_sound_snapshot_that_its_claim_does_not_vouch_for(tmp_path: Path) -> None:
    lb.write_partition(
        tmp_path / "logs", "orders", 0, {base: [lb.data_batch(base, 10, 7, 0, base)] for base in (0, 10)},
        high_watermark=20, indexes=True,
    )  # fmt: skip
    layout = ("--remote", tmp_path / "remote", "--layout", "local-tiered-storage")
    assert tiersnap("tier", tmp_path / "logs", *layout, *NOW, "--apply").exit_code == 0
    (snapshot,) = (tmp_path / "remote" / "kafka-tiered-storage").rglob("*.snapshot")
    entries = decode(snapshot.read_bytes())
    entries["last_offset"] = 8
    snapshot.write_bytes(encode(entries))
    (row,) = checked(*layout).rows
    assert (row["verdict"], row["compared_with"]) == ("CORRUPT", "CLAIM")


def test_verify_reads_the_indexes_where_all_producers_expired(
    right: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    for name in ("get", "get_range", "list"):
        real = getattr(DirectoryStore, name)
        monkeypatch.setattr(
            DirectoryStore,
            name,
            lambda *args, _name=name, _real=real, **how: asked.update([_name]) or _real(*args, **how),
        )
    ran = checked(*right, "--topic", "churn")
    segments = len(ran.rows)
    if right[-1] == "aiven":
        # One listing for the plan and two of the partition; and the newest segment's leader epochs, for the lineage.
        assert asked == {"list": 3, "get": 2 * segments + 1}


def test_verify_believes_no_snapshot_of_a_segment_that_is_of_the_log_in_part(tmp_path: Path) -> None:
    """Its last batches are of a leader that lost an unclean election, and so is what its snapshot says."""
    store = DirectoryStore(tmp_path / "remote")
    for name, epochs, bases in (("lost", [(0, 0), (1, 5)], (0, 10)), ("log", [(0, 0), (2, 5)], (0, 5, 10, 15))):
        segments = {
            base: [
                lb.data_batch(at, 5, at + 1 + 100 * epochs[at >= 5][0], 0, 0, leader_epoch=epochs[at >= 5][0])
                for at in range(base, end, 5)
            ]
            for base, end in zip(bases, (*bases[1:], bases[-1] + 5), strict=True)
        }
        tier(lb.write_partition(tmp_path / name, "orders", 0, segments, leader_epochs=epochs), store)
    for depth in DEPTHS:
        ran = tiersnap("verify", "--remote", store.root, "--now", str(lb.TIMESTAMP), "--depth", depth, "--strict")
        assert ran.exit_code == 0, ran.err
        assert [row["next_base_offset"] for row in ran.rows if not row["is_of_log"]] == [10]


def test_verify_tells_segments_of_another_lineage_apart(tmp_path: Path) -> None:
    """What a leader wrote that lost an unclean election is read by nobody, and lacks what the next one wrote."""
    store, bases = DirectoryStore(tmp_path / "remote"), (0, 5, 10, 15)
    for name, epochs, producer in (("lost", [(0, 0), (1, 5)], 7), ("log", [(0, 0), (2, 5)], 9)):
        segments = {
            base: [lb.data_batch(base, 5, producer if base == 5 else 7, 0, base, leader_epoch=epochs[base >= 5][0])]
            for base in bases
        }
        folder = lb.write_partition(tmp_path / name, "orders", 0, segments, leader_epochs=epochs, high_watermark=20)
        tier(folder, store)
    words = ("verify", "--remote", store.root, "--now", str(lb.TIMESTAMP), "--strict")
    for more in (*(("--depth", depth) for depth in DEPTHS), (tmp_path / "log", "--depth", "snapshots")):
        ran = tiersnap(*words, *more)
        assert ran.exit_code == 0, ran.err
        assert [row["base_offset"] for row in ran.rows if not row["is_of_log"]] == [5, 10]
    for path in store.root.rglob("*0010-*.log"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    ran = tiersnap(*words, "--depth", "full")
    assert [row["reason"][:4] for row in ran.rows if row["base_offset"] == 10] == ["log:", "log:"]


@pytest.mark.parametrize("depth", ["snapshots", "full"])
@pytest.mark.parametrize("letters", ["ABCDE", "EDCBA"])
def test_verify_finds_nothing_wrong_where_replicas_rolled_at_other_offsets(
    tmp_path: Path, depth: str, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = iter(letters)  # segments of one base offset are told in the order of their ids
    monkeypatch.setattr(tiered, "new_segment_id", lambda: 21 * next(ids) + "A")
    store = DirectoryStore(tmp_path / "remote")
    batches = {base: lb.data_batch(base, 5, base + 1, 0, 0) for base in (0, 5, 10, 15)}
    for name, bases in (("one", (0, 10, 15)), ("other", (0, 5, 10, 15))):
        segments = {
            base: [batches[each] for each in batches if base <= each < end]
            for base, end in zip(bases, (*bases[1:], 20), strict=True)
        }
        tier(lb.write_partition(tmp_path / name, "orders", 0, segments), store)
    ran = tiersnap("verify", "--remote", store.root, "--now", str(lb.TIMESTAMP), "--depth", depth, "--strict")
    assert_said(ran, 0, "5 of 5 remote segments are sound")


def ended_transaction(tmp_path: Path) -> tuple[str, ...]:
    """A remote log whose idle producer 7 ended its transaction in the second segment; the snapshot there lacks it."""
    segments = {
        0: [lb.data_batch(0, 5, 7, 0, 0, transactional=True)],
        5: [lb.marker(5, 7, 0, 3, commit=True), lb.data_batch(6, 4)],
        10: [lb.data_batch(10, 5)],
        15: [lb.data_batch(15, 5)],
    }
    folder = lb.write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=20)
    empty = encode(np.empty(0, ENTRY_DTYPE))
    store = DirectoryStore(tmp_path / "remote")
    tier(folder, store, snapshots={10: empty, 15: empty})
    now = str(lb.TIMESTAMP + 3 * 86_400_000)
    return "verify", "--remote", str(store.root), "--now", now


@pytest.mark.parametrize("depth", ["snapshots", "full"])
def test_verify_misses_no_producer_whose_transaction_ended_and_that_expired(tmp_path: Path, depth: str) -> None:
    ran = tiersnap(*ended_transaction(tmp_path), "--depth", depth)
    assert_said(ran, 0, "3 of 3 remote segments are sound")


def test_verify_full_believes_the_whole_log_before_an_earlier_snapshot(tmp_path: Path) -> None:
    """A broker may forget the coordinator of an idle producer that comes back, which does no harm."""
    segments = {
        0: [lb.data_batch(0, 4, 7, 0, 0), lb.marker(4, 7, 0, 3, commit=True)],
        5: [lb.data_batch(5, 5, 7, 0, 4)],
        10: [lb.data_batch(10, 5, 7, 0, 9)],
        15: [lb.data_batch(15, 5)],
    }
    folder = lb.write_partition(tmp_path / "logs", "orders", 0, segments, high_watermark=20)
    store = DirectoryStore(tmp_path / "remote")
    forgot = decode(tiered.folded_snapshots(read_partition(LOCAL, str(folder), Checkpoints()))[10]).copy()
    forgot["coordinator_epoch"] = -1
    tier(folder, store, snapshots={10: encode(forgot)})
    ran = tiersnap("verify", "--remote", store.root, "--now", str(lb.TIMESTAMP), "--depth", "full")
    assert_said(ran, 0, "3 of 3 remote segments are sound")
