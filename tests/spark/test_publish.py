"""`run` tells brokers of what it uploaded: a model cluster has the records, and its topic the configs that it had."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.log_builder import data_batch, write_partition
from tests.reference.model_cluster import CLUSTER_ID, ModelCluster
from tests.spark.small_fleet import TOPIC_ID
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.run import run as run_job
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.cluster import copy_progress
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.metadata.metadata_records import SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.publish.location_evidence import ProvePlace
from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.log.selection import Selection

pytestmark = pytest.mark.spark

OWN = {"retention.ms": "86400000", "local.retention.ms": "1000"}
ORDERS = TopicIdPartition("orders", TOPIC_ID, 0)


@pytest.fixture
def log_dirs(tmp_path: Path) -> tuple[str, ...]:
    """Two replicas of a partition with four closed segments, of brokers 1 and 2; broker 1 leads."""
    for broker in (1, 2):
        log_dir = tmp_path / f"broker-{broker}"
        segments = {base: [data_batch(base, 5, 7, 0, base)] for base in range(0, 25, 5)}
        write_partition(log_dir, "orders", 0, segments, topic_id=TOPIC_ID, high_watermark=25, indexes=True)
        meta = f"#\nversion=1\ncluster.id={CLUSTER_ID}\nnode.id={broker}\n"
        (log_dir / "meta.properties").write_text(meta)
    return tuple(str(tmp_path / f"broker-{broker}") for broker in (1, 2))


def test_a_run_publishes_what_it_uploads_and_the_next_one_what_a_killed_run_left(
    spark: SparkSession, tmp_path: Path, log_dirs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_progress, "_MARGIN_SECONDS", 0)
    cluster = ModelCluster()
    cluster.of_brokers = {"remote.log.manager.task.interval.ms": "1"}
    cluster.create(ORDERS, end=25, settings=OWN)
    places = log_dirs, str(tmp_path / "remote"), str(tmp_path / "warehouse")
    settings = RunSettings(*places, leaders=log_dirs[:1], left_for=None, apply=True)

    def run(*, is_unproven: bool = True) -> RunOutcome:
        def publishes(store: ObjectStore) -> PublishUploads:
            evidence = MetadataTopic.of(cluster), store, log_dirs, False, is_unproven, True
            place, expiry = ProvePlace(cluster, *evidence, print), settings.replay.broker_expiry(settings.now)
            return PublishUploads(place, open_location(store, "aiven"), log_dirs, Selection(), expiry)

        return run_job(spark, settings, publishes=publishes)

    unproven = run(is_unproven=False)
    assert exit_code_of(unproven.problems(settings)) is ExitCode.GATE_REFUSED
    assert (unproven.counts.segments_uploaded, unproven.counts.segments_published) == (4, 0)
    assert list(cluster.records(ORDERS)) == []

    done = run()
    finished = [each.id.segment_id for each in cluster.records(ORDERS) if isinstance(each, SegmentUpdate)]
    assert (done.errors, done.counts.segments_published, len(set(finished))) == ([], 4, 4)
    assert cluster.there["orders"].own == OWN
    assert run().counts.segments_published == 0


@pytest.mark.nightly
def test_a_run_uploads_no_segment_of_a_topic_that_the_cluster_does_not_have(
    spark: SparkSession, tmp_path: Path, log_dirs: tuple[str, ...]
) -> None:
    """It uploaded four segments that no broker of the cluster would read."""
    cluster = ModelCluster()
    cluster.create(TopicIdPartition("orders", "AAAAAAAAAAAAAAAAAAAAAg", 0), end=25, settings=OWN)
    places = log_dirs, str(tmp_path / "remote"), str(tmp_path / "warehouse")
    settings = RunSettings(*places, leaders=log_dirs[:1], left_for=None, apply=True)

    def publishes(store: ObjectStore) -> PublishUploads:
        evidence = MetadataTopic.of(cluster), store, log_dirs, False, True, True
        place, expiry = ProvePlace(cluster, *evidence, print), settings.replay.broker_expiry(settings.now)
        return PublishUploads(place, open_location(store, "aiven"), log_dirs, Selection(), expiry)

    done = run_job(spark, settings, publishes=publishes)
    assert exit_code_of(done.problems(settings)) is ExitCode.GATE_REFUSED
    assert [type(each).__name__ for each in done.errors] == ["UnknownTopicError"]
    assert done.counts.segments_uploaded == 0
    assert not list((tmp_path / "remote").rglob("*.log"))
