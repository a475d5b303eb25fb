"""`import tiersnap`: few names, imported when they are asked for."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import tiersnap
from tests.reference.broker_lock import broker
from tests.reference.broker_process import started_broker
from tests.reference.command import tiersnap as command
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.retention_meanwhile import delete_when_read
from tests.reference.small_log import write_small_log
from tiersnap.remote_storage.errors import WrongPlaceError
from tiersnap.snapshot.errors import CorruptSnapshotError, LogDirInUseError, SourceNotFoundError, UsageError

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data"
SNAPSHOT = DATA / "ledger-2.7.2" / "expected" / "ledger-0" / "00000000000000000183.snapshot"

LOCAL_STORAGE = "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage"

# Names of parameters in their order; `*` is where those that need a name begin, `=` marks a default.
SIGNATURES = {
    "read_snapshot": "path",
    "repair": "log_dir * topic= topic_ids= options= now= apply= check_crc=",
    "run": "spark settings * store= cluster= publishes= talk=",
    "scan": "log_dir * topic= options= now= check_crc=",
    "tier": "log_dir remote * topic= topic_ids= options= now= layout= stores= check_crc= apply=",
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


def classes_of(hint: object) -> set[type]:
    """The classes of an annotation, those inside it too."""
    inside = {found for part in get_args(hint) for each in _parts(part) for found in classes_of(each)}
    return inside | ({hint} if isinstance(hint, type) else set())


def _parts(part: object) -> list[object]:
    return part if isinstance(part, list) else [part]


@pytest.mark.parametrize("name", SIGNATURES)
def test_each_type_that_a_function_takes_or_returns_is_exported(name: str) -> None:
    hints = get_type_hints(getattr(tiersnap, name))
    ours = {found for hint in hints.values() for found in classes_of(hint) if found.__module__.startswith("tiersnap")}
    assert {each.__name__ for each in ours} <= {*tiersnap.__all__}


def test_each_exported_name_is_documented_and_is_the_one_of_the_type_checker() -> None:
    assert set(SIGNATURES) == {name for name in tiersnap.__all__ if inspect.isfunction(getattr(tiersnap, name))}
    assert {*tiersnap.__all__} - {"__version__"} == set(tiersnap._MODULE_OF)
    assert set(tiersnap.__all__) <= set(dir(tiersnap))
    for name in tiersnap.__all__:
        assert getattr(tiersnap, name).__doc__, name
    imported = re.findall(r"^    from (\S+) import (.+)$", Path(tiersnap.__file__).read_text(), re.MULTILINE)
    assert {name: module for module, names in imported for name in names.split(", ")} == tiersnap._MODULE_OF


@pytest.mark.parametrize("name", [name for name in SIGNATURES if name != "run"])
def test_the_docstring_of_a_function_names_each_argument_and_its_errors(name: str) -> None:
    function = getattr(tiersnap, name)
    text = function.__doc__
    assert "Raises:" in text
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"\b{parameter}\b", text), parameter


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
    with pytest.raises(UsageError, match="is a broker's log directory"):
        tiersnap.write_snapshot(partition / f"{5:020d}.snapshot", tiersnap.read_snapshot(SNAPSHOT))


def test_a_leader_that_is_no_source_is_refused() -> None:
    places = {"remote": "/tier", "warehouse": "/tables"}
    assert tiersnap.RunSettings(sources=("/a", "/b"), leaders=("/a",), **places).leaders == ("/a",)
    with pytest.raises(UsageError, match="not one of the sources"):
        tiersnap.RunSettings(sources=("/a",), leaders=("/b",), **places)


def test_repair_plans_and_writes_what_the_command_does(tmp_path: Path) -> None:
    write_small_log(tmp_path, with_snapshots=False)
    (plan,) = tiersnap.repair(str(tmp_path))
    rows = command("repair", tmp_path).rows
    assert [(each.offset, each.action, each.size_bytes) for each in plan.planned] == [
        (row["offset"], row["action"], row["size_bytes"]) for row in rows
    ]
    (tmp_path / ".lock").touch()
    with broker(tmp_path), pytest.raises(LogDirInUseError):
        list(tiersnap.repair(str(tmp_path), apply=True))
    assert command("repair", tmp_path).rows == rows
    (done,) = tiersnap.repair(str(tmp_path), apply=True)
    assert (done.planned, done.undone) == (plan.planned, ())
    assert command("verify", tmp_path).exit_code == 0
    assert command("repair", tmp_path).rows == []


def test_scan_judges_as_the_command_does() -> None:
    logs, now = DATA / "kafka-4.1.1/logs", "2026-11-21T12:45:00Z"
    scanned = list(tiersnap.scan(str(logs), now=1_795_265_100_000))
    rows = command("scan", logs, "--now", now, "--segments").rows
    ours = [
        (each.examination.partition.name, one.base_offset, str(one.verdict), one.reason)
        for each in scanned
        for one in each.readiness
    ]
    assert ours == [(row["partition"], row["base_offset"], row["verdict"], row["reason"]) for row in rows]
    assert len(ours) > 20


def test_tier_uploads_what_the_command_would_and_nothing_without_apply(tmp_path: Path) -> None:
    logs, remote = tmp_path / "logs", tmp_path / "tiers"
    write_small_log(logs, with_snapshots=False, topic_id="5GXaOJXiRzOuReKRIUWzvw")
    (planned,) = tiersnap.tier(str(logs), str(remote))
    assert not remote.exists()
    (row,) = command("tier", logs, "--remote", remote).rows
    assert (row["planned"], row["verdicts"]) == (
        planned.plan.segments,
        {str(name): count for name, count in planned.verdicts.items()},
    )
    (done,) = tiersnap.tier(str(logs), str(remote), apply=True)
    assert done.errors == []
    assert done.verdicts[tiersnap.Verdict.UPLOADED] == planned.plan.segments > 0
    assert command("verify", logs, "--remote", remote).exit_code == 0
    (again,) = tiersnap.tier(str(logs), str(remote), apply=True)
    assert [event for event in again.events if event.object_bytes] == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock")
def test_nothing_is_tiered_to_a_location_that_the_running_broker_does_not_read(tmp_path: Path) -> None:
    logs, properties, elsewhere = tmp_path / "logs", tmp_path / "server.properties", tmp_path / "elsewhere"
    write_small_log(logs, topic_id="5GXaOJXiRzOuReKRIUWzvw")
    (tmp_path / "tier").mkdir()
    properties.write_text(f"log.dirs={logs}\n{LOCAL_STORAGE}\nrsm.config.dir={tmp_path / 'tier'}\n")
    with started_broker(logs, properties), pytest.raises(WrongPlaceError):
        tiersnap.tier(str(logs), str(elsewhere), layout="local-tiered-storage", apply=True)
    assert not elsewhere.exists()


def test_scan_leaves_out_a_segment_that_retention_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10, 20)}
    write_partition(tmp_path, "orders", 0, segments, high_watermark=30, indexes=True)
    delete_when_read(monkeypatch, 0)
    (found,) = tiersnap.scan(str(tmp_path))
    assert [each.base_offset for each in found.readiness] == [10, 20]
    assert [each.path for each in found.examination.findings if each.is_gone] == []


@pytest.mark.parametrize("call", [tiersnap.scan, tiersnap.repair, partial(tiersnap.tier, remote="/none")])
def test_a_topic_that_is_no_regular_expression_is_a_usage_error(call: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match=r"^topic '\(': "):
        call(str(DATA / "kafka-4.1.1/logs"), topic="(")


def test_a_topic_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no topic matches"):
        list(tiersnap.scan(str(DATA / "kafka-4.1.1/logs"), topic="nothing"))
