"""The producer state as one DataFrame function: Kafka's own entries, and those of the compiled fold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tiersnap
from tests.reference import log_builder as lb
from tests.reference import snapshot_entries as reference
from tests.reference.random_log import NOW
from tests.reference.recovered import DATA
from tiersnap.jobs.pipeline.source import KafkaSegmentDataSource
from tiersnap.jobs.producer_state import snapshot_entries
from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
from tiersnap.snapshot.replay.expiry import DAY_MS, Expiry

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/producer-state.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(params=["true", "false"], ids=["ANSI", "not ANSI"])
def ansi(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", before)


def read(spark: SparkSession, *log_dirs: str) -> DataFrame:
    spark.dataSource.register(KafkaSegmentDataSource)
    source = spark.read.format("kafkasegment")
    return reduce(DataFrame.unionByName, [source.load(each) for each in log_dirs])


def by_snapshot(entries: DataFrame) -> reference.Entries:
    found: reference.Entries = {}
    names = "log_dir", "topic", "partition", "snapshot_offset", *ENTRY_DTYPE.names
    for row in entries.select(*names).orderBy("producer_id").collect():
        found.setdefault(tuple(row)[:4], []).append(tuple(row)[4:])
    return found


def test_entries_of_the_bundled_logs_are_kafkas_own(ansi: SparkSession) -> None:
    expected = reference.kafkas_entries(reference.BUNDLED)
    assert sum(map(len, expected.values())) == 3649
    assert by_snapshot(snapshot_entries(read(ansi, *reference.BUNDLED))) == expected


@pytest.fixture(scope="module")
def random_logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    return reference.write_random_logs(tmp_path_factory.mktemp("random") / "logs", 200)


def test_entries_of_200_generated_logs_are_those_of_the_compiled_fold(ansi: SparkSession, random_logs: str) -> None:
    expected = reference.kernels_entries(random_logs)
    assert len(expected) > 800
    assert by_snapshot(snapshot_entries(read(ansi, random_logs))) == expected


@pytest.mark.parametrize("as_of", [pytest.param(None, marks=pytest.mark.nightly), NOW + 3_000])
def test_an_entry_expires_as_in_a_snapshot_that_run_writes(
    spark: SparkSession, random_logs: str, as_of: int | None
) -> None:
    expiry = Expiry(DAY_MS, NOW + 5_000, as_of)
    expected = reference.kernels_entries(random_logs, expiry)
    assert expected != reference.kernels_entries(random_logs)
    assert by_snapshot(snapshot_entries(read(spark, random_logs), expiry)) == expected


def test_a_log_that_kafka_refuses_is_refused_with_its_offset(spark: SparkSession, tmp_path: Path) -> None:
    opening, plain = lb.data_batch(0, 3, 7, 0, 0, transactional=True), lb.data_batch(3, 2, 7, 0, 3)
    lb.write_partition(tmp_path, "refused", 0, {0: [opening], 3: [plain], 5: []}, indexes=True, high_watermark=5)
    with pytest.raises(Exception, match="refused-0: offset 3 is not in the open transaction"):
        snapshot_entries(read(spark, str(tmp_path))).collect()


@pytest.mark.nightly
def test_entries_of_a_log_whose_first_segment_is_not_read_tell_where_they_were_folded_from(
    spark: SparkSession,
) -> None:
    batches = read(spark, str(DATA / "kafka-4.1.1/logs")).where("topic = 'tv2'")
    rows = snapshot_entries(batches.where("segment_base_offset > 0")).select("folded_from").distinct().collect()
    assert [row.folded_from for row in rows] == [
        min(row.segment_base_offset for row in batches.where("segment_base_offset > 0").collect())
    ]


@pytest.mark.nightly
def test_the_example_of_the_page_writes_a_snapshot_of_kafka(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = DATA / "ledger-2.7.2/logs"
    names: dict[str, object] = {"spark": spark}
    for example in EXAMPLES[:2]:
        exec(compile(example.replace("/var/lib/kafka/data", str(logs)), "docs/producer-state.md", "exec"), names)
    (written,) = tmp_path.glob("*.snapshot")
    expected = tiersnap.read_snapshot(DATA / "ledger-2.7.2/expected/ledger-0" / written.name)
    assert tiersnap.read_snapshot(written).tolist() == expected.tolist()
