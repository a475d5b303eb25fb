"""`--scan window`: what it writes beside the full replay of the same log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import fold as reference
from tests.reference import log_builder as lb
from tests.reference.aging_log import DAY, NOW, AgingLog, write_aged
from tests.reference.examples import examples
from tests.reference.fact_rows import judged
from tests.reference.fleet_run import Ran, Runner
from tests.reference.record_batch import read_segment
from tests.unit.test_producer_fold import as_state
from tests.unit.test_snapshot_comparison import rows
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.commands.run import show
from tiersnap.jobs.pipeline.listing import StatedFacts
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.replay.expiry import BrokerExpiry, ReplayOptions, Scan
from tiersnap.snapshot.replay.window_start import window_offset

pytestmark = pytest.mark.unit

EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")
WEEK = 7 * DAY
SINCE = NOW - WEEK


def run(runner: Runner, **options: object) -> Ran:
    """A run with a window; the cluster tells nothing unless `told` says it."""
    return runner(**{"scan": Scan.WINDOW, "expiration": WEEK, "as_of": None, "now": NOW, **options})  # type: ignore[arg-type]


def log_end(log: AgingLog) -> int:
    return read_segment(b"".join(b"".join(entries) for entries in log.segments.values())).last_offset + 1


def stable_offset(log: AgingLog) -> int:
    """The last stable offset of a leader that has the whole log, by the readable fold."""
    opened = (entry.txn_first_offset for entry in replayed(log, log_end(log)).values())
    return min((first for first in opened if first >= 0), default=log_end(log))


def led(log: AgingLog, *, stable: int | None = None, high_watermark: int | None = None) -> StatedFacts:
    """What the cluster tells of the log."""
    return StatedFacts(
        topic_id="lZ6vvmajTWKDBUTV6SQAtQ",
        leader_stable=stable_offset(log) if stable is None else stable,
        leader_high_watermark=log_end(log) if high_watermark is None else high_watermark,
    )


def snapshots(runner: Runner) -> dict[int, reference.State]:
    """What was written, by offset."""
    parsed = {keys.parse(key): data for key, data in runner.objects().items()}
    return {
        key.offset: as_state(snapshot_file.decode(data))
        for key, data in parsed.items()
        if key.kind is KeyKind.SNAPSHOT and key.offset is not None
    }


def replayed(log: AgingLog, offset: int) -> reference.State:
    """The full replay, by the readable fold."""
    data = b"".join(b"".join(entries) for base, entries in log.segments.items() if base < offset)
    return reference.fold(read_segment(data, -1).batches)


def shown(log: AgingLog, edge: int) -> set[int]:
    """Producer ids that the window shows."""
    data = b"".join(b"".join(entries) for base, entries in log.segments.items() if base >= edge)
    return {batch.producer_id for batch in read_segment(data, edge - 1).batches}


def assert_unknown(ran: Ran, runner: Runner) -> None:
    """Nothing was written and nothing tiered, and each closed segment says why."""
    assert set(ran.verdicts) <= {"UNKNOWN_TRANSACTIONS", "ACTIVE_SEGMENT"}
    closed = [row["reason"] for row in ran.readiness if row["verdict"] == "UNKNOWN_TRANSACTIONS"]
    assert closed and all("nothing proves which transactions are open there" in reason for reason in closed)
    assert (snapshots(runner), ran.segments_uploaded) == ({}, 0)


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 2**32), days=st.integers(2, 40), producers=st.integers(2, 12))
def test_a_window_leaves_out_nothing_but_what_had_expired_or_was_never_heard_of_again(
    seed: int, days: int, producers: int
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        log = AgingLog(seed, days, producers)
        log.write(folder / "logs")
        runner = Runner(folder, folder / "logs")
        ran = run(runner, told=led(log))
        assert all("the snapshot of the segment lacks" in error for error in ran.errors)
        edge = ran.listed[0]["window_offset"]
        if stable_offset(log) < (edge or 0):
            assert_unknown(ran, runner)
            return
        bases = list(log.segments)
        assert (edge is None) == (days <= 7)
        assert [base for _, base in ran.decoded] == [base for base in bases if base >= (edge or 0)]
        written = snapshots(runner)
        assert sorted(written) == bases[1:]
        known = shown(log, edge or 0)
        for offset, observed in written.items():
            full = replayed(log, offset)
            assert {each: full.get(each) for each in observed} == observed, "nothing is wrong"
            is_before = edge is not None and offset <= edge
            for producer_id, entry in full.items():
                is_open = entry.txn_first_offset >= 0 and producer_id in known
                if is_before and is_open:
                    # It may have been closed before the window, and nobody looked.
                    is_open = replayed(log, edge)[producer_id] == entry
                if is_open or (not is_before and entry.timestamp >= SINCE):
                    assert producer_id in observed, (offset, entry)
        assert ran.errors or run(runner, told=led(log)).did_nothing


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 2**32))
def test_a_log_within_the_expiration_is_scanned_as_exactly_as_ever(seed: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        AgingLog(seed, 6, 5).write(folder / "logs")
        bounded, exact = (Runner(folder / str(scan), folder / "logs") for scan in Scan)
        run(bounded)
        run(exact, scan=Scan.EXACT)
        assert snapshots(bounded) == snapshots(exact)


def begun_in_remote_storage(folder: Path, bases: list[int], tiered: int) -> tuple[Runner, int]:
    """The first `tiered` segments are copied, as far as they may be, and deleted here; how many that were."""
    shutil.copytree(folder / "logs", folder / "before" / "logs")
    for base in bases[tiered + 1 :]:
        (folder / "before" / "logs" / "orders-0" / f"{base:020d}.log").unlink()
    before = Runner(folder / "before", folder / "before" / "logs")
    tiered = before(as_of=None, now=NOW).segments_uploaded
    for base in bases[:tiered]:
        for path in (folder / "logs" / "orders-0").glob(f"{base:020d}.*"):
            path.unlink()
    (folder / "logs" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    return Runner(folder, folder / "logs", remote=before.remote), tiered


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 2**32), producers=st.integers(2, 12), tiered=st.integers(1, 10))
def test_a_producer_is_followed_back_into_remote_storage_where_the_log_begins_there(
    seed: int, producers: int, tiered: int
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        log = AgingLog(seed, 20, producers)
        log.write(folder / "logs")
        bases = list(log.segments)
        runner, tiered = begun_in_remote_storage(folder, bases, tiered)
        before = snapshots(runner)
        ran = run(runner, told=led(log))
        assert ran.errors == []
        written = snapshots(runner)
        if stable_offset(log) < ran.listed[0]["window_offset"]:
            assert (written, ran.segments_uploaded) == (before, 0)
            return
        assert written.keys() - before.keys() == {*bases[tiered + 1 :]} - before.keys(), "nothing waits for its start"
        for offset, observed in written.items():
            full = replayed(log, offset)
            assert {each: full.get(each) for each in observed} == observed, "nothing is wrong"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_producer_whose_last_batch_is_in_remote_storage_alone_is_right_or_nothing_is_written(
    tmp_path: Path, is_known: bool
) -> None:
    log = AgingLog(0)
    times = {day: NOW - (12 - day) * DAY for day in range(12)}
    log.segments = {day: [lb.data_batch(day, 1, timestamp=time)] for day, time in times.items()}
    log.segments[0] = [lb.data_batch(0, 1, 7, 1, 3, timestamp=times[0])]
    log.segments[8] = [lb.marker(8, 7, 1, 0, True, times[8])]
    write_aged(tmp_path / "logs", log.segments, times)
    runner, _ = begun_in_remote_storage(tmp_path, list(log.segments), 2)
    before = snapshots(runner)
    if not is_known:
        for path in Path(runner.remote).rglob("*"):
            if path.is_file() and path.suffix in (".indexes", ".snapshot"):
                path.write_bytes(b"")
    ran = run(runner, told=led(log))
    if is_known:
        assert ran.errors == []
        written = snapshots(runner)
        assert written.keys() - before.keys() == set(range(3, 12))
        assert written[9] == replayed(log, 9)
    else:
        assert not [path for path in Path(runner.remote).rglob("*.snapshot") if path.read_bytes()]
        assert ran.segments_uploaded == 0
        assert "producer state below the first local segment is unknown" in ran.errors[0]


def test_a_producer_is_followed_back_into_a_remote_segment_that_ends_in_the_window(tmp_path: Path) -> None:
    """A leader that rolled later copied days 0 to 15 as one segment, which also holds files that are here."""
    times = {day: NOW - (20 - day) * DAY for day in range(20)}
    segments = {day: [lb.data_batch(day, 1, timestamp=time)] for day, time in times.items()} | {
        0: [lb.data_batch(0, 1, 7, 1, 3, timestamp=times[0])],
        14: [lb.marker(14, 7, 1, 0, True, times[14])],
    }
    rolled = {0: [entry for day in range(16) for entry in segments[day]], 16: segments[16]}
    write_aged(tmp_path / "before" / "logs", rolled, {0: times[15], 16: times[16]})
    before = Runner(tmp_path / "before", tmp_path / "before" / "logs")
    assert before(as_of=None, now=NOW).segments_uploaded == 1
    for path in Path(before.remote).rglob("*"):
        if path.is_file() and b'"finished"' in path.read_bytes():
            path.unlink()

    left = {day: segments[day] for day in range(2, 20)}
    folder = write_aged(tmp_path / "logs", left, {day: times[day] for day in left})
    (folder.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    runner = Runner(tmp_path, tmp_path / "logs", remote=before.remote, runs=1)
    log = AgingLog(0)
    log.segments = segments
    ran = run(runner, producer_expiration=WEEK, told=led(log))
    assert (ran.errors, ran.listed[0]["window_offset"]) == ([], 13)
    assert ran.segments_uploaded == 3
    assert snapshots(runner)[17] == {7: replayed(log, 17)[7]}


def old_log(tmp_path, *, snapshots: dict[int, bytes] | None = None):
    """Twenty days of few producers, all of it stable; the files at these offsets are the broker's."""
    log = AgingLog(3, 20, 1)
    folder = log.write(tmp_path / "logs")
    for offset, data in (snapshots or {}).items():
        (folder / f"{offset:020d}.snapshot").write_bytes(data)
    return log, folder, Runner(tmp_path, tmp_path / "logs")


def test_a_broker_s_file_before_the_window_is_uploaded_as_one_that_nobody_compared(tmp_path) -> None:
    log, folder, runner = old_log(tmp_path)
    bases = list(log.segments)
    (folder / f"{bases[2]:020d}.snapshot").write_bytes(EMPTY_SNAPSHOT)
    (folder / f"{bases[3]:020d}.snapshot").write_bytes(b"no snapshot")

    ran = run(runner, told=led(log))

    rows = {row["base_offset"]: row for row in ran.readiness}
    assert rows[bases[0]]["verdict"] == rows[bases[1]]["verdict"] == "UPLOADED"
    assert rows[bases[0]]["snapshot_provenance"] == "COMPUTED_WITHIN_WINDOW"
    assert (rows[bases[1]]["snapshot"], rows[bases[1]]["snapshot_provenance"]) == ("UNVERIFIED", "BROKER_UNVERIFIED")
    assert rows[bases[2]]["verdict"] == "CORRUPT_SNAPSHOT"
    assert rows[bases[3]]["verdict"] == "GAP_BEFORE"
    assert ran.segments_uploaded == 2


def test_without_a_window_a_file_that_nobody_compared_is_never_uploaded(tmp_path) -> None:
    """The same tables, judged as an exact run judges them."""
    log, folder, runner = old_log(tmp_path)
    (folder / f"{list(log.segments)[1]:020d}.snapshot").write_bytes(EMPTY_SNAPSHOT)
    ran = run(runner, apply=False, told=led(log))
    (row,) = [row for row in ran.facts if row["kind"] == "BOUNDARY" and row["compared"] == "UNVERIFIED"]
    bounded, exact = (
        judged(JudgePartition(False, BrokerExpiry(NOW, DAY), scan), ran.facts, []) for scan in (True, False)
    )
    assert bounded[0]["verdict"] == "BEFORE_WINDOW"
    assert (exact[0]["verdict"], exact[0]["provenance"]) == ("UNVERIFIED_SNAPSHOT", None)
    assert row["snapshot_offset"] == bounded[0]["next_base_offset"]


def test_a_flipped_bit_before_the_window_is_seen_by_the_upload(tmp_path) -> None:
    log, folder, runner = old_log(tmp_path)
    bases = list(log.segments)
    path = folder / f"{bases[1]:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(NOW * 500_000,) * 2)

    ran = run(runner, told=led(log))

    assert ran.segments_uploaded == 1
    assert len(ran.errors) == 1
    assert path.name in ran.errors[0]


def test_a_producer_that_must_be_followed_through_damage_stops_its_partition(tmp_path) -> None:
    log = AgingLog(0)
    log.segments = {
        0: [lb.data_batch(0, 2, 7, 1, 3, True, NOW - 20 * DAY)],
        2: [lb.data_batch(2, 1, timestamp=NOW - 19 * DAY)],
        3: [lb.marker(3, 7, 1, 0, True, NOW)],
        4: [lb.data_batch(4, 1, timestamp=NOW)],
    }
    folder = lb.write_partition(tmp_path / "logs", "orders", 0, log.segments, high_watermark=5, indexes=True)
    for base, day in ((0, 20), (2, 19)):
        stem = folder / f"{base:020d}"
        stem.with_suffix(".timeindex").write_bytes((NOW - day * DAY).to_bytes(8, "big") + bytes(4))
        os.utime(stem.with_suffix(".log"), ns=((NOW - day * DAY) * 1_000_000,) * 2)
    runner = Runner(tmp_path, tmp_path / "logs")
    whole = run(runner, apply=False, told=led(log))
    assert (whole.errors, whole.listed[0]["window_offset"]) == ([], 3)
    (state,) = [row for row in whole.facts if row["kind"] == "STATE"]
    assert [(each["producer_id"], each["last_offset"]) for each in state["deltas"]] == [(7, 1)]

    (folder / f"{2:020d}.log").write_bytes(b"no batch at all, and long enough for a header of one, or so it seems")
    os.utime(folder / f"{2:020d}.log", ns=((NOW - 19 * DAY) * 1_000_000,) * 2)
    ran = run(Runner(tmp_path, tmp_path / "logs"), told=led(log))

    assert len(ran.errors) == 1
    assert "cannot be followed back beyond the scan window" in ran.errors[0]
    assert (ran.readiness, ran.segments_uploaded) == ([], 0)


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        ([1, 2, 30, 40], 20),
        ([1, 30, 2, 40], 10),  # times that go back: nothing after the first young segment is left out
        ([30, 1, 2, 40], None),
        ([1, None, 2, 40], 10),  # nobody knows how old it is
        ([1, 2, 3, 4], 30),  # the active segment is always read
    ],
)
def test_the_window_begins_with_the_first_segment_that_may_hold_a_young_record(largest, expected) -> None:
    assert window_offset([0, 10, 20, 30], largest, since=25) == expected


def test_a_window_needs_an_expiration_to_know_how_far_back_it_goes() -> None:
    with pytest.raises(UsageError, match="needs --expiration"):
        ReplayOptions(expiration=None, scan=Scan.WINDOW)


@pytest.mark.parametrize("scan", list(Scan))
def test_run_says_what_a_window_cannot_see(capsys: pytest.CaptureFixture[str], scan: Scan) -> None:
    asked = RunSettings(("logs",), "remote", "warehouse", replay=ReplayOptions(scan=scan))
    show(Output(Format.TABLE), RunOutcome(), asked, Path("report"), is_fine=True)
    said = capsys.readouterr().err
    words = (
        "transactions that ended before the window",
        "The snapshot then has coordinator epoch -1",
        "BROKER_UNVERIFIED",
        "--scan exact",
    )
    assert [word in said for word in words] == [scan is Scan.WINDOW] * len(words)


def test_window_knows_no_coordinator_epoch_of_markers_before_it(tmp_path: Path) -> None:
    """No client writes so; the run says that it cannot see it."""
    log = AgingLog(0)
    times = {day: NOW - (12 - day) * DAY for day in range(12)}
    log.segments = {day: [lb.data_batch(day, 1, timestamp=time)] for day, time in times.items()}
    log.segments[0] = [lb.data_batch(0, 1, 7, 1, 3, True, times[0]), lb.marker(1, 7, 1, 5, True, times[0])]
    del log.segments[1], times[1]
    log.segments[8] = [lb.data_batch(8, 1, 7, 1, 4, timestamp=times[8])]
    write_aged(tmp_path / "logs", log.segments, times)
    runner = Runner(tmp_path, tmp_path / "logs")
    assert run(runner, told=led(log)).errors == []
    assert replayed(log, 9)[7].coordinator_epoch == 5
    assert snapshots(runner)[9][7] == replace(replayed(log, 9)[7], coordinator_epoch=-1)


# A transaction that was open before the window.

FIRST, EDGE, END = 2, 13, 20


def hanging_log(folder: Path, *, days: int = END, opened: int | None = FIRST) -> tuple[AgingLog, Path]:
    """Two records a day. Producer 7 opens a transaction on one of the days, and no batch and no marker follow.

    Producer 8 writes a transaction on each of the first days.
    """
    log = AgingLog(0)
    times = {day: NOW - (days - day) * DAY for day in range(days)}
    log.segments = {2 * day: [lb.data_batch(2 * day, 2, 5, 0, 2 * day, timestamp=time)] for day, time in times.items()}
    for day in range(FIRST):
        started = lb.data_batch(2 * day, 1, 8, 0, day, True, times[day])
        log.segments[2 * day] = [started, lb.marker(2 * day + 1, 8, 0, 0, True, times[day])]
    if opened is not None:
        log.segments[2 * opened] = [lb.data_batch(2 * opened, 2, 7, 1, 0, True, times[opened])]
    return log, write_aged(folder / "logs", log.segments, {2 * day: time for day, time in times.items()})


def brokers_files(log: AgingLog, folder: Path, offsets: Iterable[int]) -> None:
    """Snapshot files as a broker writes them that never forgot a producer."""
    for offset in offsets:
        data = snapshot_file.encode(rows(replayed(log, offset)))
        (folder / snapshot_file.file_name(offset)).write_bytes(data)


def tiered(ran: Ran) -> list[int]:
    return [row["base_offset"] for row in ran.tiered if row["state"] == "COPY_SEGMENT_FINISHED"]


def test_exact_tiers_none_of_the_segments_that_a_transaction_holds(tmp_path: Path) -> None:
    hanging_log(tmp_path)
    ran = run(Runner(tmp_path, tmp_path / "logs"), scan=Scan.EXACT)
    assert tiered(ran) == [0, 2], "those below the transaction"


def test_window_tiers_nothing_when_nothing_proves_what_is_open_where_it_begins(tmp_path: Path) -> None:
    hanging_log(tmp_path)
    runner = Runner(tmp_path, tmp_path / "logs")
    ran = run(runner)
    assert ran.listed[0]["window_offset"] == 2 * EDGE
    assert_unknown(ran, runner)
    assert run(runner).did_nothing
    again = run(runner, scan=Scan.EXACT)
    assert tiered(again) == [0, 2], "an exact run is not held up by what the window left"


@pytest.mark.parametrize("shown", [2 * EDGE, 2 * EDGE - 6])
def test_window_follows_a_snapshot_that_names_the_open_transaction(tmp_path: Path, shown: int) -> None:
    log, folder = hanging_log(tmp_path)
    brokers_files(log, folder, [shown])
    runner = Runner(tmp_path, tmp_path / "logs")
    ran = run(runner)
    assert (ran.errors, ran.listed[0]["window_offset"]) == ([], shown)
    assert tiered(ran) == [0, 2]
    assert {row["verdict"] for row in ran.readiness[2:-1]} <= {"ABOVE_LSO", "GAP_BEFORE"}
    for offset, observed in snapshots(runner).items():
        full = replayed(log, offset)
        assert {each: full[each] for each in observed} == observed
        assert (7 in observed) is (offset > 2 * FIRST), "a snapshot holds what is open at its offset"


def test_window_tiers_a_log_whose_snapshot_shows_that_nothing_is_open(tmp_path: Path) -> None:
    log, folder = hanging_log(tmp_path, opened=None)
    brokers_files(log, folder, [2 * EDGE])
    ran = run(Runner(tmp_path, tmp_path / "logs"))
    assert (ran.errors, tiered(ran)) == ([], list(log.segments)[:-1])


LIES = {
    "no producer": lambda log, folder: (folder / snapshot_file.file_name(2 * EDGE)).write_bytes(EMPTY_SNAPSHOT),
    "no snapshot": lambda log, folder: (folder / snapshot_file.file_name(2 * EDGE)).write_bytes(b"no snapshot"),
    "behind the edge": lambda log, folder: brokers_files(log, folder, [2 * EDGE + 2]),
    "between segments": lambda log, folder: brokers_files(log, folder, [2 * EDGE - 1]),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_snapshot_that_shows_nothing_of_the_windows_begin_proves_nothing(
    tmp_path: Path, lie: Callable[[AgingLog, Path], object]
) -> None:
    log, folder = hanging_log(tmp_path)
    lie(log, folder)
    runner = Runner(tmp_path, tmp_path / "logs")
    ran = run(runner)
    assert ran.segments_uploaded == 0
    assert set(ran.verdicts) == {"UNKNOWN_TRANSACTIONS", "ACTIVE_SEGMENT"}


def test_snapshot_that_contradicts_the_log_about_an_open_transaction_proves_nothing(tmp_path: Path) -> None:
    _, folder = hanging_log(tmp_path, opened=None)
    other, _ = hanging_log(tmp_path / "other")
    brokers_files(other, folder, [2 * EDGE])
    runner = Runner(tmp_path, tmp_path / "logs")
    ran = run(runner)
    assert_unknown(ran, runner)
    assert "the snapshot file contradicts the log" in ran.readiness[0]["reason"]


CLUSTERS = {
    "what is stable lies before the window": ({}, False),
    "all is stable": ({"stable": 2 * END}, True),
    "up to the window": ({"stable": 2 * EDGE}, True),
    "up to a record before the window": ({"stable": 2 * EDGE - 1}, False),
    "the log here ends below the high watermark": ({"stable": 2 * END, "high_watermark": 2 * END + 1}, False),
}


@pytest.mark.parametrize(("told", "proves"), CLUSTERS.values(), ids=CLUSTERS)
def test_cluster_proves_the_window_by_its_last_stable_offset(
    tmp_path: Path, told: dict[str, int], *, proves: bool
) -> None:
    log, _ = hanging_log(tmp_path, opened=None if proves else FIRST)
    runner = Runner(tmp_path, tmp_path / "logs")
    ran = run(runner, told=led(log, **told))
    if proves:
        assert (ran.errors, tiered(ran)) == ([], list(log.segments)[:-1])
    else:
        assert_unknown(ran, runner)


def test_another_topic_of_the_same_name_proves_nothing(tmp_path: Path) -> None:
    log, _ = hanging_log(tmp_path)
    runner = Runner(tmp_path, tmp_path / "logs")
    told = replace(led(log, stable=2 * END), topic_id="AAAAAAAAAAAAAAAAAAAAAA")
    assert_unknown(run(runner, told=told), runner)


def test_window_is_replayed_anew_once_the_cluster_proves_it(tmp_path: Path) -> None:
    log, _ = hanging_log(tmp_path, opened=None)
    runner = Runner(tmp_path, tmp_path / "logs")
    assert_unknown(run(runner), runner)
    assert tiered(run(runner, told=led(log))) == list(log.segments)[:-1]


@settings(max_examples=examples(15))
@given(
    seed=st.integers(0, 2**32),
    days=st.integers(9, 30),
    producers=st.integers(2, 8),
    shown=st.sets(st.integers(1, 29), max_size=4),
    has_cluster=st.booleans(),
)
def test_window_tiers_and_writes_nothing_that_exact_does_not(
    seed: int, days: int, producers: int, shown: set[int], *, has_cluster: bool
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        log = AgingLog(seed, days, producers)
        place = log.write(folder / "logs")
        bases = list(log.segments)
        brokers_files(log, place, [bases[each] for each in shown if each < days])
        window, exact = (Runner(folder / str(scan), folder / "logs") for scan in Scan)
        ran, full = run(window, **({"told": led(log)} if has_cluster else {})), run(exact, scan=Scan.EXACT)
        assert full.errors == []
        assert all("the snapshot of the segment lacks" in error for error in ran.errors)
        assert set(tiered(ran)) <= set(tiered(full))
        edge = ran.listed[0]["window_offset"] or 0
        for offset, observed in snapshots(window).items():
            whole = replayed(log, offset)
            assert {each: whole.get(each) for each in observed} == observed
            opened = {each for each, entry in whole.items() if entry.txn_first_offset >= 0}
            assert offset < edge or opened <= observed.keys(), "none that is open is missing"


# A transaction index that was lost before the window.


def aborting_log(folder: Path, *, spans: bool = True) -> tuple[AgingLog, Path]:
    """Producer 7 aborts a transaction in the segment at 6; it began in the one at 4 if it `spans` both."""
    log = AgingLog(0)
    times = {day: NOW - (END - day) * DAY for day in range(END)}
    log.segments = {2 * day: [lb.data_batch(2 * day, 2, 5, 0, 2 * day, timestamp=time)] for day, time in times.items()}
    opened = lb.data_batch(6 - 2 * spans, 1, 7, 0, 0, True, times[3 - spans])
    if spans:
        log.segments[4] = [opened, lb.data_batch(5, 1, 5, 0, 4, timestamp=times[2])]
        log.segments[6] = [lb.data_batch(6, 1, 5, 0, 5, timestamp=times[3])]
    else:
        log.segments[6] = [opened]
    log.segments[6].append(lb.marker(7, 7, 0, 0, False, times[3]))
    return log, write_aged(folder / "logs", log.segments, {2 * day: time for day, time in times.items()})


def transaction_indexes(runner: Runner) -> dict[int, bytes]:
    """What remote storage holds, by base offset."""
    return {int(path.name[:20]): path.read_bytes() for path in Path(runner.remote).rglob("*.txnindex")}


DAMAGED = pytest.mark.parametrize("damage", [None, b"", b"no index"], ids=["lost", "empty", "damaged"])


def damage_index(path: Path, damage: bytes | None) -> bytes:
    """The right bytes of the file."""
    right = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    return right


@DAMAGED
def test_window_makes_a_lost_transaction_index_before_it_again(tmp_path: Path, damage: bytes | None) -> None:
    log, folder = aborting_log(tmp_path, spans=False)
    right = damage_index(folder / f"{6:020d}.txnindex", damage)
    runner = Runner(tmp_path, tmp_path / "logs", layout=LocalTieredStorageLayout())
    ran = run(runner, told=led(log))
    assert ran.listed[0]["window_offset"] > 6
    assert tiered(ran) == list(log.segments)[:-1]
    assert transaction_indexes(runner) == {6: right}


@DAMAGED
def test_window_refuses_a_lost_transaction_index_where_the_log_begins_inside_a_transaction(
    tmp_path: Path, damage: bytes | None
) -> None:
    log, folder = aborting_log(tmp_path)
    right = damage_index(folder / f"{6:020d}.txnindex", damage)
    for base in (0, 2, 4):
        for path in folder.glob(f"{base:020d}.*"):
            path.unlink()
    (folder.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    runner = Runner(tmp_path, tmp_path / "logs", layout=LocalTieredStorageLayout())
    ran = run(runner, told=led(log))
    assert tiered(ran) == []
    assert "does not know where these transactions start" in ran.errors[0]
    (folder / f"{6:020d}.txnindex").write_bytes(right)
    assert tiered(run(runner, told=led(log))) == list(log.segments)[3:-1]
    assert transaction_indexes(runner) == {6: right}


# A transaction that ended before the window, open at the end of a segment before it.


def test_window_refuses_a_segment_that_ends_inside_a_transaction_and_exact_tiers_it(tmp_path: Path) -> None:
    log, folder = aborting_log(tmp_path)
    right = (folder / f"{6:020d}.txnindex").read_bytes()
    runner = Runner(tmp_path, tmp_path / "logs", layout=LocalTieredStorageLayout())
    ran = run(runner, told=led(log))
    assert tiered(ran) == [0, 2]
    assert (
        "the snapshot of the segment lacks 1 open transaction (the first: producer 7, from offset 4)" in ran.errors[0]
    )
    assert [row["verdict"] for row in ran.readiness[1:4]] == ["UPLOADED", "UNKNOWN_TRANSACTIONS", "GAP_BEFORE"]
    assert tiered(run(runner, scan=Scan.EXACT, told=led(log))) == list(log.segments)[2:-1]
    assert transaction_indexes(runner) == {6: right}


def test_window_tiers_a_segment_whose_snapshot_of_the_broker_names_the_transaction(tmp_path: Path) -> None:
    log, folder = aborting_log(tmp_path)
    brokers_files(log, folder, [6])
    runner = Runner(tmp_path, tmp_path / "logs", layout=LocalTieredStorageLayout())
    assert tiered(run(runner, told=led(log))) == list(log.segments)[:-1]
    assert transaction_indexes(runner) == {6: (folder / f"{6:020d}.txnindex").read_bytes()}


def passing_log(folder: Path) -> tuple[AgingLog, Path]:
    """Producer 7 begins a transaction in the segment at 4, leaves nothing in the next one, and aborts it at 8."""
    log, _ = aborting_log(folder / "other")
    times = {day: NOW - (END - day) * DAY for day in range(END)}
    log.segments[6] = [lb.data_batch(6, 2, 5, 0, 5, timestamp=times[3])]
    log.segments[8] = [lb.marker(8, 7, 0, 0, False, times[4]), lb.data_batch(9, 1, 5, 0, 7, timestamp=times[4])]
    return log, write_aged(folder / "logs", log.segments, {2 * day: time for day, time in times.items()})


def test_window_refuses_a_segment_below_a_transaction_that_the_snapshot_before_names(tmp_path: Path) -> None:
    log, folder = passing_log(tmp_path)
    brokers_files(log, folder, [6])
    ran = run(Runner(tmp_path, tmp_path / "logs"), told=led(log))
    assert tiered(ran) == [0, 2, 4]
    assert "lacks 1 open transaction (the first: producer 7, from offset 4)" in ran.errors[0]


@pytest.mark.parametrize("is_known", [True, False])
def test_window_asks_remote_storage_what_is_open_behind_its_segments(tmp_path: Path, *, is_known: bool) -> None:
    log, _ = passing_log(tmp_path)
    before = Runner(tmp_path / "before", tmp_path / "logs", layout=LocalTieredStorageLayout())
    assert tiered(before(as_of=None, now=NOW)) == list(log.segments)[:-1]
    for path in Path(before.remote).rglob("*"):
        is_behind = path.name[:20].isdigit() and int(path.name[:20]) >= 6
        if path.is_file() and (is_behind or b'"finished"' in path.read_bytes()):
            path.unlink()
        elif path.suffix == ".snapshot" and not is_known:
            path.write_bytes(b"")
        elif path.suffix == ".log" and not is_known:
            data = path.read_bytes()
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    runner = Runner(tmp_path, tmp_path / "logs", remote=before.remote, layout=before.layout, runs=1)
    ran = run(runner, told=led(log))
    assert tiered(ran) == []
    words = "lacks 1 open transaction (the first: producer 7, from offset 4)"
    assert (words if is_known else "open transactions at offset 6 are unknown") in ran.errors[0]
