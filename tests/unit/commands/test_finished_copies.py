"""Copies that killed attempts left whole: what `tier` and `run` say once they have finished them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from tests.reference.command import Ran, tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.no_finish import NoFinish
from tests.reference.tiered import aiven
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.commands.run import show
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.locks.process import this_process
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.tier_host import HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of
from tiersnap.snapshot.replay.expiry import ReplayOptions
from tiersnap.snapshot.report.run_info import RunCounts

pytestmark = pytest.mark.unit

NOW = 1_795_266_000_000  # 2026-11-21T13:00:00Z
GONE = structs.replace(this_process(), process_start=this_process().process_start + "0")
FINISHED = "tiersnap sent no bytes for 1 remote segment"


def tier(source: Path, remote: Path) -> Ran:
    return tiersnap("tier", source, "--remote", remote, "--now", "2026-11-21T13:00:00Z", "--apply")


@pytest.mark.parametrize("more", [0, 1])
def test_a_run_that_finishes_a_copy_says_so_whatever_else_it_does(tmp_path: Path, more: int) -> None:
    source, remote = tmp_path / "logs", tmp_path / "remote"
    segments = {base: [data_batch(base, 10, 1, 0, base)] for base in range(0, 20 + 10 * more, 10)}
    write_partition(source, "orders", 0, segments, high_watermark=20 + 10 * more, indexes=True)
    store = NoFinish(DirectoryStore(remote), 1)
    killed = HostTier(aiven(store), ReplayOptions(), Tierer("run-1", NOW, process=GONE, wait=0), apply=True)  # type: ignore[arg-type]
    list(killed.partitions(selected_of(open_log_dirs([str(source)]), Selection())))

    ran = tier(source, remote)

    assert (ran.exit_code, json.loads(ran.out)["result"]["segments_uploaded"]) == (0, more), ran.err
    assert FINISHED in ran.err
    assert "nothing to do" not in ran.err
    again = tier(source, remote)
    assert FINISHED not in again.err
    assert "no object was written" in again.err


@pytest.mark.parametrize(
    ("finished", "said"), [(0, ""), (1, FINISHED), (2, "tiersnap sent no bytes for 2 remote segments")]
)
def test_a_run_on_spark_says_it_alike(capsys: pytest.CaptureFixture[str], finished: int, said: str) -> None:
    outcome = RunOutcome(copies_finished=finished, counts=RunCounts(delta_commits=1))
    settings = RunSettings(("logs",), "remote", "warehouse", apply=True)
    show(Output(Format.TABLE), outcome, settings, Path("report"), is_fine=True)
    told = capsys.readouterr().err
    assert said in told
    assert ("sent no bytes" in told) is bool(finished)
