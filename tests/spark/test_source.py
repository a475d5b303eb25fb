"""`spark.read.format("kafkasegment")` on real logs, against the readable decoder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.reference.record_batch import read_segment
from tests.reference.recovered import DATA
from tests.spark.conftest import Remote
from tiersnap.jobs.pipeline import schemas
from tiersnap.jobs.pipeline.source import KafkaSegmentDataSource, KafkaSegmentReader, SourceFilter
from tiersnap.snapshot.tables.spark_made_tables import RECORD_BATCHES

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


def reader(path: Path, *, task_bytes: int, **options: str) -> KafkaSegmentReader:
    return KafkaSegmentReader(str(path), SourceFilter.of(options), check_crc=True, task_bytes=task_bytes)


def test_only_segments_that_can_hold_the_selected_offsets_are_opened() -> None:
    tasks = reader(LOGS, task_bytes=1, topic="tv2", fromoffset="700", untiloffset="1271").partitions()
    assert [segment.base_offset for task in tasks for segment in task.segments] == [634, 961]


def test_topic_and_partition_select_folders() -> None:
    (task,) = reader(LOGS, task_bytes=1 << 30, topic="orders|payments", partition="1", untiloffset="200").partitions()
    assert [(segment.topic, segment.partition, segment.base_offset) for segment in task.segments] == [
        ("orders", 1, 0),
        ("payments", 1, 0),
    ]


@pytest.mark.nightly
def test_a_log_that_begins_with_an_empty_segment_is_read(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    tasks = reader(tmp_path, task_bytes=100).partitions()
    assert [[segment.size for segment in task.segments] for task in tasks] == [[0]]


def test_the_selected_offsets_are_the_rows(spark: SparkSession, batches: DataFrame) -> None:
    options = {"topic": "churn", "fromOffset": "300", "untilOffset": "500"}
    selected = spark.read.format("kafkasegment").options(**options).load(str(LOGS))
    read = [read_segment(path.read_bytes(), base - 1) for base, path in segments("churn")]
    expected = [batch.base_offset for segment in read for batch in segment.batches if 300 <= batch.base_offset < 500]
    assert [row.base_offset for row in selected.orderBy("base_offset").collect()] == expected
    filtered = batches.where("topic = 'churn' and base_offset >= 300 and base_offset < 500")
    assert filtered.count() == len(expected)


@pytest.mark.nightly
def test_a_filtered_query_leaves_nothing_out_of_the_next_one(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaSegmentDataSource)
    frame = spark.read.format("kafkasegment").load(str(LOGS))
    assert frame.where("topic = 'payments'").count() < frame.count()
    topics = {path.name.rpartition("-")[0] for path in LOGS.glob("*-*/") if any(path.glob("*.log"))}
    assert {row.topic for row in frame.select("topic").distinct().collect()} <= topics
    assert frame.where("topic = 'churn'").count() + frame.where("topic <> 'churn'").count() == frame.count()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("partition", "one", "partition, 'one'"),
        ("fromOffset", "-1", "fromOffset, '-1'"),
        ("topic", "(", "topic, '\\('"),
    ],
)
def test_an_option_that_is_wrong_is_named(spark: SparkSession, option: str, value: str, said: str) -> None:
    spark.dataSource.register(KafkaSegmentDataSource)
    with pytest.raises(AnalysisException, match=said):
        spark.read.format("kafkasegment").option(option, value).load(str(LOGS)).count()


@pytest.mark.nightly
def test_a_missing_path_and_a_wrong_path_say_so(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaSegmentDataSource)
    with pytest.raises(Exception, match="no path"):
        spark.read.format("kafkasegment").load().count()
    with pytest.raises(Exception, match="no such directory"):
        spark.read.format("kafkasegment").load("/no/such/dir").count()


@pytest.mark.nightly
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


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log directory in whose partition tv2-0 the second closed segment is damaged at its third batch."""
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    path = logs / "tv2-0" / f"{634:020d}.log"
    position = int(read_segment(path.read_bytes(), 633).rows()[2][RECORD_BATCHES.names[4:].index("position")])
    data = bytearray(path.read_bytes())
    data[position + 30] ^= 1
    path.write_bytes(data)
    return logs


@pytest.mark.parametrize(
    "option", ["topics", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("fromoffsets", "on_damage"))]
)
def test_an_option_that_nobody_knows_is_an_error_that_names_those_there_are(option: str) -> None:
    source = KafkaSegmentDataSource({"path": str(LOGS), option: "1"})
    with pytest.raises(ValueError, match=rf"unknown option {option}; the options are .*fromOffset.*onDamage"):
        source.reader(schemas.RECORD_BATCHES)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("onDamage", "ignore"),
        pytest.param("checkCrc", "yes", marks=pytest.mark.nightly),
        pytest.param("fromOffset", "²", marks=pytest.mark.nightly),
    ],
)
def test_a_value_that_an_option_does_not_take_is_an_error(option: str, value: str) -> None:
    with pytest.raises(ValueError, match=option):
        KafkaSegmentDataSource({"path": str(LOGS), option.lower(): value}).reader(schemas.RECORD_BATCHES)


@pytest.mark.nightly
def test_a_misspelt_topic_is_an_error_that_names_the_topics(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"no topic 'order'.* orders, "):
        reader(LOGS, task_bytes=1 << 30, topic="order").partitions()
    with pytest.raises(ValueError, match=r"no topic 'tv2', partition 7"):
        reader(LOGS, task_bytes=1 << 30, topic="tv2", partition="7").partitions()
    spark.dataSource.register(KafkaSegmentDataSource)
    with pytest.raises(AnalysisException, match="no topic 'order'"):
        spark.read.format("kafkasegment").option("topic", "order").load(str(LOGS)).collect()


def rows_of(found: KafkaSegmentReader) -> int:
    return sum(batch.num_rows for task in found.partitions() for batch in found.read(task))


def test_a_damaged_segment_fails_the_query_unless_told_to_stop_there(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match=r"BAD_CRC: .*00634\.log at byte .*onDamage"):
        rows_of(reader(damaged, task_bytes=1 << 30, topic="tv2"))
    options = {"check_crc": True, "task_bytes": 1 << 30}
    whole = rows_of(KafkaSegmentReader(str(LOGS), SourceFilter.of({"topic": "tv2"}), **options))
    left = rows_of(KafkaSegmentReader(str(damaged), SourceFilter.of({"topic": "tv2"}), **options, stops_at_damage=True))
    lost = len(read_segment((LOGS / "tv2-0" / f"{634:020d}.log").read_bytes(), 633).rows()) - 2
    assert whole - left == lost
    assert "BAD_CRC" in caplog.text


@pytest.mark.nightly
def test_damage_above_the_selected_end_costs_no_row_and_no_error(damaged: Path) -> None:
    assert rows_of(reader(damaged, task_bytes=1 << 30, topic="tv2", untiloffset="635")) > 0


@pytest.mark.nightly
def test_a_log_file_that_is_none_is_damage_too(tmp_path: Path) -> None:
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    (logs / "tv2-0" / f"{634:020d}.log").unlink()
    (logs / "tv2-0" / f"{634:020d}.log").mkdir()
    with pytest.raises(ValueError, match="not a regular file: a folder"):
        reader(logs, task_bytes=1 << 30, topic="tv2").partitions()
