"""`run` over disks of several brokers with replicas of the same partitions: the cluster says which one counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.poisoned_tier import NOW, poisoned_tier
from tests.spark.small_fleet import TOPIC_ID
from tiersnap.jobs.cli.option_types import parse_time
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.run import run as run_job
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.topics import Topic, TopicConfig
from tiersnap.snapshot.errors import ExitCode, TransientError
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.metrics.of_run import of_run

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

CLUSTER_ID = "abcdefghijklmnopqrstuv"
# Base offsets of the segments on the disk of each broker.
BASES = {1: (0, 5, 10), 2: (0, 10)}


class Described(Cluster):
    """A cluster that says of one topic who leads its partitions, and copies nothing of it."""

    def __init__(self, leaders: Mapping[int, int], topic_id: str = TOPIC_ID) -> None:
        super().__init__("127.0.0.1:1")
        self._leaders, self._topic_id = leaders, topic_id

    def cluster_id(self) -> str:
        return CLUSTER_ID

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic(name, self._topic_id, self._leaders) for name in names if name == "orders"}

    def partition_counts(self) -> dict[str, int]:
        return {"orders": len(self._leaders)}

    def hidden(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset()

    def settings(self, topic: str) -> dict[str, TopicConfig]:
        return {}

    def log_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        return dict.fromkeys(partitions, (0, 15))


def write_replicas(folder: Path) -> tuple[str, ...]:
    """Two partitions on the disks of both brokers; each broker rolled its segments elsewhere."""
    log_dirs = []
    for broker, bases in BASES.items():
        log_dir = folder / f"broker-{broker}"
        segments = {
            base: [data_batch(offset, 5, 7, 0, offset) for offset in range(base, end, 5)]
            for base, end in pairwise([*bases, 15])
        }
        for number in (0, 1):
            write_partition(log_dir, "orders", number, segments, topic_id=TOPIC_ID, high_watermark=15, indexes=True)
        meta = f"#\nversion=1\ncluster.id={CLUSTER_ID}\nnode.id={broker}\n"
        (log_dir / "meta.properties").write_text(meta)
        log_dirs.append(str(log_dir))
    return tuple(log_dirs)


def test_of_a_partition_without_a_leader_nothing_is_done_and_the_others_are_tiered_from_theirs(
    spark: SparkSession, tmp_path: Path
) -> None:
    remote = tmp_path / "remote"
    settings = RunSettings(write_replicas(tmp_path), str(remote), str(tmp_path / "warehouse"), apply=True)

    def run_led(*leaders: int) -> RunOutcome:
        return run_job(spark, settings, cluster=Described(dict(enumerate(leaders))))

    def tiered() -> dict[int, list[int]]:
        """Base offsets of the copies, by partition."""
        found: dict[int, list[int]] = {}
        for path in sorted(remote.glob("orders-*/*/*.rsm-manifest")):
            found.setdefault(int(path.parent.name), []).append(int(path.name[:20]))
        return found

    with pytest.raises(
        TransientError,
        match="orders-0: the partition has no leader now; the sources have 2 replicas of the partition",
    ):
        run_led(-1, -1)
    assert tiered() == {}
    ran = run_led(2, -1)
    assert [error.message.split(";")[0] for error in ran.errors] == ["orders-1: the partition has no leader now"]
    assert exit_code_of(ran.problems(settings)) is ExitCode.TRANSIENT
    assert tiered() == {0: [0]}
    ran = run_led(2, 1)
    assert exit_code_of(ran.problems(settings)) is ExitCode.OK
    assert tiered() == {0: [0], 1: [0, 5]}
    # What was replayed of it is no partition that is gone while it has no leader; led elsewhere, it is.
    ran = run_led(2, -1)
    assert (ran.did_nothing, ran.partitions, exit_code_of(ran.problems(settings))) == (True, 1, ExitCode.TRANSIENT)
    assert exit_code_of(run_led(2, 2).problems(settings)) is ExitCode.OK
    rows = DeltaTable(str(tmp_path / "warehouse" / "partitions")).to_pyarrow_table().to_pylist()
    gone = [(Path(row["log_dir"]).name, row["partition"]) for row in rows if row["kind"] == "GONE"]
    assert gone == [("broker-1", 1)]


def test_run_without_publisher_uploads_no_segment_of_a_topic_with_another_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = RunSettings(write_replicas(tmp_path), str(tmp_path / "remote"), str(tmp_path / "warehouse"), apply=True)
    done = run_job(spark, settings, cluster=Described({0: 1, 1: 2}, "AAAAAAAAAAAAAAAAAAAAAg"))
    assert [type(each).__name__ for each in done.errors] == ["UnknownTopicError", "UnknownTopicError"]
    assert exit_code_of(done.problems(settings)) is ExitCode.GATE_REFUSED
    assert done.counts.segments_uploaded == 0
    assert not list((tmp_path / "remote").rglob("*.log"))


def test_run_names_replicas_that_forgot_producers_and_the_one_that_should_lead(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The leader knows all, and the other replica was rebuilt from the tier."""
    right = poisoned_tier(tmp_path / "right", "churn-0", rebuilt=None, local_from=7)
    rebuilt = poisoned_tier(tmp_path / "rebuilt", "churn-0", rebuilt=5, local_from=7, remote=tmp_path / "other")
    sources = tuple(str(each.logs) for each in (right, rebuilt))
    for log_dir in sources:
        (Path(log_dir) / "meta.properties").write_text(f"#\nversion=1\ncluster.id={CLUSTER_ID}\nnode.id=1\n")
    now = parse_time(NOW[1])
    settings = RunSettings(
        *(sources, str(right.remote), str(tmp_path / "warehouse")),
        leaders=sources[:1],
        now=now,
        left_for=None,
        no_upload=True,
        apply=True,
    )
    ran = run_job(spark, settings)
    assert ran.report is not None
    (found,) = ran.report.replicas_without_producers
    named = tiersnap("doctor", rebuilt.logs, "--remote", right.remote, *NOW)
    (expected,) = json.loads(named.out)["result"]["lost_producers"]
    assert (found.log_dir, found.topic, found.partition, found.lead) == (sources[1], "churn", 0, sources[0])
    assert (found.known, found.living, found.meets) == tuple(expected[name] for name in ("known", "living", "meets"))
    assert exit_code_of(ran.problems(settings)) is ExitCode.GATE_REFUSED
    (sample,) = (each for each in of_run(ran.report, ExitCode.OK, errors=0) if each.name.endswith("lost_producers"))
    assert sample.value == found.living - found.known

    def reported() -> list[object]:
        """What the warehouse names, on the page and on stdout, and the cure on stderr."""
        page = tmp_path / "page"
        told = tiersnap("report", "--warehouse", settings.warehouse, *NOW, "--to", page)
        summary = json.loads(told.out)["result"]
        cure = f"tiersnap repair LOGDIR --remote {right.remote} --replace --apply"
        of_page = json.loads((page / "readiness.json").read_text())["replicas_without_producers"]
        return [of_page, summary.get("replicas_without_producers", []), cure in told.err]

    named_by_run = [asdict(found)]
    assert reported() == [named_by_run, named_by_run, True]
    # A run over other sources does not look at it, and the next one finds what is known.
    assert run_job(spark, replace(settings, sources=sources[:1], leaders=())).did_nothing
    assert run_job(spark, settings).did_nothing
    assert reported() == [named_by_run, named_by_run, True]

    assert tiersnap("repair", rebuilt.logs, "--remote", right.remote, *NOW, "--replace", "--apply").exit_code == 0
    ran = run_job(spark, settings)
    assert ran.report is not None
    assert (ran.report.replicas_without_producers, exit_code_of(ran.problems(settings))) == ((), ExitCode.OK)
    assert reported() == [[], [], False]
    assert run_job(spark, settings).did_nothing
