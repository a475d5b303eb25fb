"""`spark.read.format("kafkasegment")` on real logs, against the readable decoder."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan

from snapshot.spark import schemas, transforms
from snapshot.spark.source import KafkaSegmentDataSource, KafkaSegmentReader
from snapshot.tables import PRODUCER_DELTAS, RECORD_BATCHES
from tests.reference.fold import Entry, fold
from tests.reference.record_batch import read_segment
from tests.reference.recovered import DATA
from tests.spark.conftest import Remote

pytestmark = pytest.mark.spark

LOGS = DATA / "kafka-3.9.1" / "logs"


@pytest.fixture(scope="module")
def batches(spark: SparkSession) -> DataFrame:
    spark.dataSource.register(KafkaSegmentDataSource)
    return spark.read.format("kafkasegment").option("taskBytes", "100000").load(str(LOGS))


def segments(topic: str, partition: int = 0) -> list[tuple[int, Path]]:
    return [(int(path.name[:20]), path) for path in sorted((LOGS / f"{topic}-{partition}").glob("*.log"))]


def test_the_columns_are_those_of_record_batches(batches: DataFrame) -> None:
    assert batches.schema == schemas.RECORD_BATCHES
    assert batches.columns == RECORD_BATCHES.names


def test_every_batch_of_the_log_is_a_row_with_the_readable_decoders_values(batches: DataFrame) -> None:
    names = RECORD_BATCHES.names[4:]
    rows = batches.where("topic = 'tv2'").orderBy("base_offset").select(*names).collect()
    expected = [row for base, path in segments("tv2") for row in read_segment(path.read_bytes(), base - 1).rows()]
    assert [tuple(row) for row in rows] == expected


def test_a_filter_on_the_offset_opens_only_segments_that_can_hold_it() -> None:
    reader = KafkaSegmentReader(str(LOGS), check_crc=True, task_bytes=1)
    list(reader.pushFilters([EqualTo(("topic",), "tv2"), GreaterThanOrEqual(("base_offset",), 700)]))
    opened = [segment.base_offset for task in reader.partitions() for segment in task.segments]
    assert opened == [634, 961, 1271]


def test_filters_on_partition_and_topic_prune_folders() -> None:
    reader = KafkaSegmentReader(str(LOGS), check_crc=True, task_bytes=1 << 30)
    list(reader.pushFilters([In(("topic",), ("orders", "payments")), EqualTo(("partition",), 1)]))
    list(reader.pushFilters([LessThan(("segment_base_offset",), 200)]))
    (task,) = reader.partitions()
    assert [(segment.topic, segment.partition, segment.base_offset) for segment in task.segments] == [
        ("orders", 1, 0),
        ("payments", 1, 0),
    ]


def test_pushed_filters_change_no_answer(batches: DataFrame) -> None:
    pushed = batches.where("topic = 'churn' and base_offset >= 300 and base_offset < 500").count()
    read = [read_segment(path.read_bytes(), base - 1) for base, path in segments("churn")]
    everything = [batch for segment in read for batch in segment.batches]
    assert pushed == sum(300 <= batch.base_offset < 500 for batch in everything)


def test_a_missing_path_and_a_wrong_path_say_so(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaSegmentDataSource)
    with pytest.raises(Exception, match="no path"):
        spark.read.format("kafkasegment").load().count()
    with pytest.raises(Exception, match="no such directory"):
        spark.read.format("kafkasegment").load("/no/such/dir").count()


def test_the_fold_of_the_table_is_the_reference_fold_of_each_segment(batches: DataFrame) -> None:
    deltas = transforms.fold(batches.where("topic = 'payments' and partition = 0"))
    assert deltas.columns == PRODUCER_DELTAS.names
    by_segment = {row.segment_base_offset: row.n for row in deltas.groupBy("segment_base_offset").agg(
        {"producer_id": "count"}).withColumnRenamed("count(producer_id)", "n").collect()}  # fmt: skip
    read = {base: read_segment(path.read_bytes(), base - 1) for base, path in segments("payments")}
    expected = {base: len(fold(segment.batches)) for base, segment in read.items()}
    assert by_segment == {base: count for base, count in expected.items() if count}


def test_carrying_the_deltas_gives_the_reference_state_at_every_boundary(batches: DataFrame) -> None:
    entries = transforms.carry(transforms.fold(batches.where("topic in ('tv2', 'churn')"))).collect()
    for topic in ("tv2", "churn"):
        state: dict[int, Entry] = {}
        for base, path in segments(topic):
            observed = {
                row.producer_id: Entry(
                    row.producer_epoch, row.last_sequence, row.last_offset, row.offset_delta, row.timestamp,
                    row.coordinator_epoch, row.current_txn_first_offset,
                )
                for row in entries if (row.topic, row.end_offset) == (topic, base)
            }  # fmt: skip
            assert observed == state
            state = fold(read_segment(path.read_bytes(), base - 1).batches, state)


def test_carrying_only_what_the_window_needs_gives_the_live_entries_of_carrying_everything(batches: DataFrame) -> None:
    deltas = transforms.fold(batches.where("topic in ('churn', 'hanging')"))
    last = deltas.agg({"timestamp": "max"}).collect()[0][0]
    window = {"as_of": last, "expiration": 300}
    pruned = transforms.relevant(deltas, **window)
    assert 0 < pruned.count() < deltas.count()
    is_live = f"current_txn_first_offset >= 0 or {last} - timestamp < 300"
    everything, bounded = (sorted(transforms.carry(each).where(is_live).collect()) for each in (deltas, pruned))
    assert bounded == everything
    assert any(row.current_txn_first_offset >= 0 for row in bounded)


def test_a_summary_counts_what_the_segments_hold(batches: DataFrame) -> None:
    rows = transforms.segment_summary(batches.where("topic = 'payments' and partition = 1")).collect()
    for row in rows:
        path = LOGS / "payments-1" / f"{row.segment_base_offset:020d}.log"
        found = read_segment(path.read_bytes(), row.segment_base_offset - 1).batches
        assert row.batches == len(found)
        assert row.markers == sum(batch.control_type in (0, 1) for batch in found)
        assert row.producers == len({batch.producer_id for batch in found if batch.producer_id >= 0})


def test_a_log_directory_in_s3_gives_the_rows_of_the_one_on_disk(
    spark: SparkSession, batches: DataFrame, remote: Remote
) -> None:
    import boto3

    bucket = remote.uri.split("/")[2]
    client = boto3.client("s3", endpoint_url=remote.url)
    for path in [*LOGS.glob("payments-0/*"), *LOGS.glob("*-checkpoint")]:
        client.upload_file(str(path), bucket, f"volume/{path.relative_to(LOGS)}")
    uri = f"s3://{bucket}/volume?endpoint_override={remote.url.removeprefix('http://')}&scheme=http&region=us-east-1"
    columns = RECORD_BATCHES.names[1:]
    observed = spark.read.format("kafkasegment").load(uri).select(*columns).orderBy("base_offset").collect()
    expected = batches.where("topic = 'payments' and partition = 0").select(*columns).orderBy("base_offset").collect()
    assert observed == expected
