"""`import tiersnap`: few names, imported when they are asked for."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tiersnap
from tests.reference.broker_lock import broker
from tests.reference.command import tiersnap as command
from tests.reference.small_log import write_small_log
from tiersnap.snapshot.errors import CorruptSnapshotError, LogDirInUseError, SourceNotFoundError, UsageError

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"
SNAPSHOT = DATA / "ledger-2.7.2" / "expected" / "ledger-0" / "00000000000000000183.snapshot"

# Names of parameters in their order; `*` is where those that need a name begin, `=` marks a default.
SIGNATURES = {
    "examine": "filesystem partition * check_crc= cleanup_policy= on_boundary= begins= fold=",
    "open_log_dir": "uri",
    "open_store": "uri settings= * writes=",
    "read_snapshot": "path",
    "repair": "filesystem partition * options= apply= check_crc= begins= topic_ids=",
    "run": "spark settings * store= cluster= publishes= talk=",
    "tier_partition": "location partition segments tierer * cluster_id= known= replaced= of_brokers=",
    "write_snapshot": "path entries * replace=",
}
_IMPORTED = """
import os, sys
before = dict(os.environ)
import tiersnap
from tiersnap.snapshot.errors import UsageError
assert dict(os.environ) == before, set(os.environ.items()) ^ set(before.items())
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


def shown(function: object) -> str:
    words: list[str] = []
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(parameter.name + ("" if parameter.default is parameter.empty else "="))
    return " ".join(words)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_of_the_front_takes_what_it_says(name: str) -> None:
    assert shown(getattr(tiersnap, name)) == SIGNATURES[name]


def test_the_front_has_these_names_and_no_others() -> None:
    assert set(tiersnap.__all__) == {*SIGNATURES, "KafkaSegmentDataSource", "RunSettings", "Verdict", "__version__"}
    for name in tiersnap.__all__:
        assert getattr(tiersnap, name).__doc__
    assert set(tiersnap.__all__) <= set(dir(tiersnap))


def test_a_run_needs_three_settings_and_applies_nothing_by_itself() -> None:
    settings = tiersnap.RunSettings(sources=("/logs",), remote="/tier", warehouse="/tables")
    assert not settings.apply
    assert settings.check_crc


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tiersnap.nothing  # noqa: B018


def test_importing_the_package_starts_nothing_and_sets_no_environment_variable() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True)
    assert not {"pyspark", "numba", "boto3", "pyarrow", "numpy", "click"} & set(done.stdout.split())


def test_a_snapshot_is_read_and_written_back_as_the_same_bytes(tmp_path: Path) -> None:
    entries = tiersnap.read_snapshot(SNAPSHOT)
    assert entries.size == 6
    written = tmp_path / SNAPSHOT.name
    assert tiersnap.write_snapshot(written, entries[::-1])
    assert tiersnap.read_snapshot(written).tolist() == entries.tolist()
    assert not tiersnap.write_snapshot(written, entries[:1])
    assert tiersnap.read_snapshot(written).size == 6
    assert tiersnap.write_snapshot(written, entries[:1], replace=True)
    assert np.array_equal(tiersnap.read_snapshot(written), entries[:1])


def test_a_file_that_is_no_snapshot_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.snapshot").write_bytes(b"")
    with pytest.raises(CorruptSnapshotError):
        tiersnap.read_snapshot(tmp_path / "x.snapshot")
    with pytest.raises(SourceNotFoundError):
        tiersnap.read_snapshot(tmp_path / "y.snapshot")


def test_no_snapshot_is_written_into_a_brokers_folder(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").touch()
    with pytest.raises(UsageError, match="holds a broker's log"):
        tiersnap.write_snapshot(partition / f"{5:020d}.snapshot", tiersnap.read_snapshot(SNAPSHOT))


def test_a_leader_that_is_no_source_is_refused() -> None:
    places = {"remote": "/tier", "warehouse": "/tables"}
    assert tiersnap.RunSettings(sources=("/a", "/b"), leaders=("/a",), **places).leaders == ("/a",)
    with pytest.raises(UsageError, match="none of the sources"):
        tiersnap.RunSettings(sources=("/a",), leaders=("/b",), **places)


def test_repair_plans_and_writes_what_the_command_does(tmp_path: Path) -> None:
    write_small_log(tmp_path, with_snapshots=False)
    log_dir = tiersnap.open_log_dir(str(tmp_path))
    (partition,) = log_dir.partitions()
    planned = tiersnap.repair(log_dir.filesystem, partition).planned
    rows = command("repair", tmp_path).rows
    assert [(each.offset, each.action, each.size_bytes) for each in planned] == [
        (row["offset"], row["action"], row["size_bytes"]) for row in rows
    ]
    (tmp_path / ".lock").touch()
    with broker(tmp_path), pytest.raises(LogDirInUseError):
        tiersnap.repair(log_dir.filesystem, partition, apply=True)
    assert command("repair", tmp_path).rows == rows
    done = tiersnap.repair(log_dir.filesystem, partition, apply=True)
    assert (done.planned, done.undone) == (planned, ())
    assert command("verify", tmp_path).exit_code == 0
    assert command("repair", tmp_path).rows == []
