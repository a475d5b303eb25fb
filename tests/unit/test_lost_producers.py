"""A replica that does not know all producers that live, named before it leads; Kafka's own snapshots are the answer."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.next_steps import commands_of
from tests.reference.poisoned_tier import NOW, PoisonedTier, poisoned_tier
from tests.reference.prometheus_text import parse as parse_metrics
from tests.reference.tiered import aiven
from tests.unit.test_poisoned_tier import state
from tiersnap.jobs.cli.option_types import parse_time
from tiersnap.jobs.pipeline.listing import FOLDERS, ListPartitions
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.summary import KnownReplicasWithoutProducers
from tiersnap.jobs.pipeline.totals import RunTotals
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers
from tiersnap.snapshot.exactly_once.simulate.lost_producers import find_lost_producers
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers
from tiersnap.snapshot.rows import Rows

pytestmark = pytest.mark.unit

MEMBERS = ("log_dir", "partition", "known", "living", "meets")

LAST = 937
DAY = 86_400_000


def named(at: PoisonedTier, *more: str) -> tuple[list[Ran], list[dict]]:
    """What `doctor` and `scan` said, and what each named, in which they must agree."""
    words = (at.logs, "--remote", at.remote, *(more or NOW))
    metrics = at.logs.parent / "tiersnap.prom"
    ran = [tiersnap("doctor", *words), tiersnap("scan", *words, "--metrics-file", metrics)]
    found = json.loads(ran[0].out)["result"]["lost_producers"]
    samples = parse_metrics(metrics.read_text())[0].items()
    counted = sum(value for (name, _), value in samples if name == "tiersnap_lost_producers")
    assert counted == sum(row["living"] - row["known"] for row in found)
    assert [{name: row[name] for name in MEMBERS} for row in ran[1].rows if row["known"] is not None] == found
    return ran, found


@pytest.mark.parametrize("local_from", [7, 8])
def test_doctor_and_scan_count_producers_as_kafka_does(tmp_path: Path, local_from: int) -> None:
    """Also if all closed segments are tiered, so that nothing waits for a snapshot."""
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=local_from)
    ran, (found,) = named(at)
    known, living = state(at.left[LAST]).keys(), state(at.expected[LAST]).keys()
    assert (found["known"], found["living"]) == (len(known & living), len(living))
    assert [each.exit_code for each in ran] == [4, 4]
    cure = f"tiersnap repair {at.logs} --now 2026-11-21T12:45:00+00:00 --remote {at.remote} --replace --apply"
    assert cure in commands_of(json.loads(ran[0].out)["result"]["next"])
    assert_said(ran[1], 4, f"churn-0 has only {len(known & living)} of {len(living)} active producers. If this replica")


@pytest.mark.parametrize("rebuilt", [5, None])
def test_page_of_tier_names_what_that_of_scan_names(tmp_path: Path, rebuilt: int | None) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=rebuilt, local_from=8)
    words, pages = (at.logs, "--remote", at.remote, *NOW), []
    for command in ("scan", "tier"):
        page, metrics = tmp_path / command, tmp_path / f"{command}.prom"
        ran = tiersnap(command, *words, "--report", page, "--metrics-file", metrics)
        assert ran.exit_code == (4 if rebuilt and command == "scan" else 0)
        samples = parse_metrics(metrics.read_text())[0].items()
        counted = sum(value for (name, _), value in samples if name == "tiersnap_lost_producers")
        pages.append((json.loads((page / "readiness.json").read_text())["replicas_without_producers"], counted))
    assert pages[0] == pages[1]
    assert bool(pages[0][0]) == bool(rebuilt)


def test_doctor_does_not_know_who_is_forgotten_if_the_log_is_damaged(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    log = min(at.folder.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"\1")
    ran = tiersnap("doctor", at.logs, "--remote", at.remote, *NOW)
    (error,) = json.loads(ran.out)["errors"]
    assert (ran.exit_code, error["hint"]) == (4, f"tiersnap scan {at.logs}")
    assert error["message"].startswith("churn-0: the snapshot lacks producers")
    assert "BAD_CRC" in error["message"]


def test_doctor_predicts_what_simulate_predicts(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    _, (found,) = named(at)
    asked = tiersnap("simulate", at.logs, "--remote", at.remote, *NOW)
    assert found["meets"] == json.loads(asked.out)["result"]["summary"]


def test_doctor_names_no_replica_after_the_cure_that_it_prints(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    steps = json.loads(named(at)[0][0].out)["result"]["next"]
    cure = next(line for line in commands_of(steps) if "repair" in line)
    assert tiersnap(*cure.split()[1:], *NOW).exit_code == 0
    ran, found = named(at)
    assert ([each.exit_code for each in ran], found) == ([0, 0], [])


def test_doctor_names_no_replica_that_knows_all(tmp_path: Path) -> None:
    ran, found = named(poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7))
    assert ([each.exit_code for each in ran], found) == ([0, 0], [])


@pytest.mark.parametrize("rebuilt", [5, None])
def test_doctor_believes_a_file_where_the_log_begins_before_its_first_checkpoint(
    tmp_path: Path, rebuilt: int | None
) -> None:
    """A running broker writes log-start-offset-checkpoint once a minute."""
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=rebuilt, local_from=8)
    (at.logs / "log-start-offset-checkpoint").write_text("0\n0\n")
    bases = sorted(int(path.stem) for path in at.folder.glob("*.log"))
    for path in at.folder.glob("*.snapshot"):
        path.unlink()
    snapshot = at.left[bases[0]] if rebuilt else at.expected[bases[0]]
    (at.folder / f"{bases[0]:020d}.snapshot").write_bytes(snapshot)
    assert [each["known"] for each in named(at)[1]] == ([7] if rebuilt else [])


def test_doctor_counts_no_producer_that_has_expired(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    ran, found = named(at, "--now", "2026-11-23T12:45:00Z")
    assert ([each.exit_code for each in ran], found) == ([0, 0], [])
    never = named(at, "--now", "2026-11-23T12:45:00Z", "--producer-expiration", "none")
    assert len(never[1]) == 1


def test_doctor_names_nobody_who_came_back_behind_the_snapshot(tmp_path: Path) -> None:
    """The file lacks producers, and the log behind it has all of them: the broker replays it when it loads the file."""
    at = poisoned_tier(tmp_path, "orders-0", rebuilt=None, local_from=2)
    for path in at.folder.glob("*.snapshot"):
        path.unlink()
    behind = {offset: data for offset, data in at.expected.items() if offset in at.left}
    offset, data = max(behind.items())
    first, *_ = sorted(behind)
    (at.folder / f"{first:020d}.snapshot").write_bytes(data_without_the_writers_behind(at, first))
    assert len(state(data)) > 0
    assert offset > first
    ran, found = named(at)
    assert (ran[0].exit_code, found) == (0, [])


def data_without_the_writers_behind(at: PoisonedTier, first: int) -> bytes:
    """The snapshot at `first` without producers that write again behind it."""
    last = state(at.expected[max(at.expected)])
    entries = snapshot_file.decode(at.expected[first])
    keeps = [last[int(each["producer_id"])].last_offset < first for each in entries]
    assert not all(keeps)
    return snapshot_file.encode(entries[keeps])


def test_doctor_ends_with_4_if_remote_storage_does_not_tell_who_lives(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    for path in at.remote.rglob("00000000000000000574-*.log"):
        path.unlink()
    ran = tiersnap("doctor", at.logs, "--remote", at.remote, *NOW)
    assert_said(ran, 4)
    assert (
        "the snapshot lacks producers that remote snapshots have, and the log does not show which of them are active"
    ) in ran.out
    assert json.loads(ran.out)["result"]["lost_producers"] == []


@pytest.mark.parametrize("rebuilt", [5, None])
def test_listing_of_a_run_counts_producers_as_doctor_does(tmp_path: Path, rebuilt: int | None) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=rebuilt, local_from=8)
    now = parse_time(NOW[1])
    task = ListPartitions(look=Observe(aiven(DirectoryStore(at.remote))), living=BrokerExpiry(now, DAY))
    folders = pa.RecordBatch.from_pylist([{"log_dir": str(at.logs), "folder": "churn-0", "records": []}], FOLDERS)
    ((row,),) = (batch.to_pylist() for batch in task(iter([folders])))
    _, found = named(at)
    forgotten = {name: row[name] for name in Rows(LostProducers).names}
    assert forgotten == ({name: found[0][name] for name in forgotten} if rebuilt else dict.fromkeys(forgotten))


class Unasked(DirectoryStore):
    """Refuses to be looked into."""

    def list(self, *args: Any, **how: Any) -> Any:
        raise AssertionError(f"{args} was asked for")


@pytest.mark.parametrize("why", ["no topic id", "internal topic", "no segment", "begins on this host"])
def test_find_forgotten_asks_for_no_log_that_is_not_tiered(tmp_path: Path, why: str) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=0 if why == "begins on this host" else 7)
    if why == "no topic id":
        (at.folder / "partition.metadata").unlink()
    elif why == "internal topic":
        at.folder.rename(at.folder.with_name("__consumer_offsets-0"))
    elif why == "no segment":
        for path in at.folder.glob("0*"):
            path.unlink()
    log_dir, look = open_log_dir(str(at.logs)), Observe(aiven(Unasked(at.remote)))
    (partition,) = log_dir.partitions()
    now = parse_time(NOW[1])
    assert find_lost_producers(look, log_dir.filesystem, partition, expiry=BrokerExpiry(now, DAY)) is None


def test_a_replica_that_a_run_could_not_ask_about_stays_known() -> None:
    """The one that leads may be asked while another is not: remote storage stopped answering in between."""
    known = ReplicaWithoutProducers(
        topic="orders", log_dir="/data", partition=0, known=1, living=2, meets="all is well"
    )
    settings = RunSettings(("/data",), "/remote", "/warehouse")
    recorded = json.dumps({**settings.as_dict(), "collected": {}, "replicas_without_producers": [asdict(known)]})
    for unasked, left in ((0, ()), (1, (known,))):
        totals = RunTotals(settings=recorded, unasked=unasked)
        assert KnownReplicasWithoutProducers.of((), totals, settings, ()) == KnownReplicasWithoutProducers(
            (known,), left
        )
