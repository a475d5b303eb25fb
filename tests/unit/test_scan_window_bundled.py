"""`--scan window` beside `--scan exact` on the bundled logs; each segment is the first of a window once."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.reference import fold as reference
from tests.reference.fleet_run import Ran, Runner
from tests.reference.record_batch import read_segment
from tests.reference.recovered import DATA
from tiersnap.jobs.pipeline.listing import NOTHING_STATED, StatedFacts
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.remote_log.partition_objects import list_topic
from tiersnap.remote_storage.remote_log.remote_segment import RemoteSegment, read_indexes
from tiersnap.remote_storage.restore.published import read_copies
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.transaction_index import ongoing_transactions
from tiersnap.snapshot.replay.expiry import Scan

pytestmark = pytest.mark.unit

TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"
LOGS = [
    *(("kafka-2.7.2", name) for name in ("hanging-0", "orders-0", "trimmed-0")),
    *(("kafka-3.9.1", name) for name in ("hanging-0", "tv2-0", "trimmed-0")),
    *(("kafka-4.1.1", name) for name in ("hanging-0", "tv2-0")),
    ("ledger-2.7.2", "ledger-0"),
]
Open = dict[int, int]  # first offset of the open transaction, by producer id


@dataclass
class BundledLog:
    """A copy of a bundled partition whose files are as old as their records; times in ms."""

    folder: Path
    topic: str
    times: dict[int, int]  # largest timestamp, by base offset
    opened: dict[int, Open]  # at the end of each segment, by offset, as the readable fold gives it

    @property
    def end(self) -> int:
        return max(self.opened)

    def told(self) -> StatedFacts:
        """What its leader says."""
        stable = min([*self.opened[self.end].values(), self.end])
        return StatedFacts(topic_id=TOPIC_ID, leader_stable=stable, leader_high_watermark=self.end)

    def runner(self, remote: Path) -> Runner:
        return Runner(remote, self.folder.parent, layout=LocalTieredStorageLayout())

    def run(
        self, remote: Path | Runner, scan: Scan, edge: int, told: StatedFacts = NOTHING_STATED, **more: bool
    ) -> Ran:
        """A run whose window begins with the segment at `edge`, if something proves the window."""
        runner = remote if isinstance(remote, Runner) else self.runner(remote)
        now = max(self.times.values()) + 1
        times = {"as_of": None, "now": now, "expiration": now - self.times[edge]}
        return runner(scan=scan, topic_ids={self.topic: TOPIC_ID}, told=told, **times, **more)  # type: ignore[arg-type]


def bundled(folder: Path, broker: str, name: str, *, snapshots: bool) -> BundledLog:
    topic, number = name.rsplit("-", 1)
    place = shutil.copytree(DATA / broker / "logs" / name, folder / "logs" / name)
    (place / "partition.metadata").unlink(missing_ok=True)
    for path in [] if snapshots else place.glob("*.snapshot"):
        path.unlink()
    times, opened, data = {}, {}, b""
    for path in sorted(place.glob("*.log")):
        own, base = path.read_bytes(), int(path.stem)
        data += own
        whole = read_segment(data, -1)
        times[base] = max(batch.max_timestamp for batch in read_segment(own, base - 1).batches)
        state = reference.fold(whole.batches).items()
        opened[whole.last_offset + 1] = {
            each: entry.txn_first_offset for each, entry in state if entry.txn_first_offset >= 0
        }
        os.utime(path, ns=(times[base] * 1_000_000,) * 2)
    for checkpoint in ("replication-offset-checkpoint", "log-start-offset-checkpoint"):
        lines = (DATA / broker / "logs" / checkpoint).read_text().splitlines()
        mine = [line for line in lines[2:] if line.startswith(f"{topic} {number} ")]
        (place.parent / checkpoint).write_text("".join(f"{line}\n" for line in ("0", str(len(mine)), *mine)))
    return BundledLog(place, topic, times, opened)


def uploaded(ran: Ran) -> set[int]:
    return {row["base_offset"] for row in ran.tiered if row["state"] == "COPY_SEGMENT_FINISHED"}


def open_in_snapshots(remote: Path, topic: str) -> dict[int, Open]:
    """What the snapshots of remote segments name as open, by offset."""
    store, found = Runner(remote, remote).store, {}
    for listed in list_topic(store, topic):
        for copy in read_copies(store, listed).segments:
            assert isinstance(copy, RemoteSegment)
            data = read_indexes(store, copy)[IndexType.PRODUCER_SNAPSHOT]
            assert data is not None
            found[copy.end_offset] = dict(ongoing_transactions(snapshot_file.decode(data)).tolist())
    return found


@pytest.mark.parametrize("snapshots", [True, False], ids=["with-snapshots", "without"])
@pytest.mark.parametrize(("broker", "name"), LOGS)
def test_window_uploads_no_segment_that_exact_does_not_and_lacks_no_transaction(
    tmp_path: Path, broker: str, name: str, *, snapshots: bool
) -> None:
    log = bundled(tmp_path, broker, name, snapshots=snapshots)
    exact = uploaded(log.run(tmp_path / "exact", Scan.EXACT, min(log.times)))
    for edge in sorted(log.times)[1:]:
        for told in (NOTHING_STATED, log.told()):
            remote = tmp_path / f"{edge}-{told is NOTHING_STATED}"
            ran = log.run(remote, Scan.WINDOW, edge, told)
            assert uploaded(ran) <= exact
            found = open_in_snapshots(remote, log.topic)
            assert len(found) == len(uploaded(ran))
            assert found == {offset: log.opened[offset] for offset in found}


def test_window_uploads_nothing_from_a_segment_on_that_ends_inside_a_transaction(tmp_path: Path) -> None:
    """Of a producer on protocol 2: its transaction began in the segment at 634 and ended in the next one."""
    log = bundled(tmp_path, "kafka-3.9.1", "tv2-0", snapshots=False)
    assert [len(log.opened[offset]) for offset in (321, 634, 961, 1271)] == [0, 0, 1, 0]
    assert uploaded(log.run(tmp_path / "exact", Scan.EXACT, 0)) == {0, 321, 634, 961}

    ran = log.run(tmp_path / "window", Scan.WINDOW, 1271, log.told())

    assert ran.listed[0]["window_offset"] == 1271
    assert uploaded(ran) == {0, 321}
    (error,) = ran.errors
    assert "the snapshot of the segment lacks 1 open transaction" in error


@pytest.mark.parametrize("snapshots", [True, False], ids=["with-snapshots", "without"])
def test_plan_and_run_give_a_segment_that_ends_inside_a_transaction_a_verdict(
    tmp_path: Path, *, snapshots: bool
) -> None:
    log = bundled(tmp_path, "kafka-3.9.1", "tv2-0", snapshots=snapshots)
    if snapshots:  # the broker's file at 961, but for the transaction
        path = log.folder / snapshot_file.file_name(961)
        entries = snapshot_file.decode(path.read_bytes())
        path.write_bytes(snapshot_file.encode(entries[entries["current_txn_first_offset"] < 0]))
    runner = log.runner(tmp_path / "window")

    def verdicts(ran: Ran) -> dict[int, str]:
        return {row["base_offset"]: row["verdict"] for row in ran.readiness if row["base_offset"] < 1271}

    def run(*, apply: bool) -> Ran:
        return log.run(runner, Scan.WINDOW, 1271, log.told(), apply=apply)

    plan = run(apply=False)
    waits = {0: "MISSING_SNAPSHOT", **dict.fromkeys((321, 634, 961), "GAP_BEFORE")}
    assert verdicts(plan) == (dict.fromkeys((0, 321, 634, 961), "BEFORE_WINDOW") if snapshots else waits)

    applied = run(apply=True)
    refused = {0: "UPLOADED", 321: "UPLOADED", 634: "UNKNOWN_TRANSACTIONS", 961: "GAP_BEFORE"}
    assert verdicts(applied) == refused
    assert "the snapshot of the segment lacks 1 open transaction" in applied.readiness[2]["reason"]

    again = run(apply=True)
    assert (again.errors, again.tiered, verdicts(again)) == ([], [], refused)
    if not snapshots:  # else a broker may have written another file
        assert verdicts(run(apply=False)) == refused
    assert set(verdicts(log.run(runner, Scan.EXACT, 1271, log.told(), replace=True)).values()) == {"UPLOADED"}
