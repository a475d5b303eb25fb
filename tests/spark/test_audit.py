"""`tiersnap audit`: generated logs against a plain reference, the bundled logs, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from tests.reference.audit import audit as reference_audit
from tests.reference.audit_cases import CASES
from tests.reference.audit_logs import EXPIRATION, generated_log
from tests.reference.audited_log import AuditedLog
from tests.reference.command import tiersnap
from tests.reference.recovered import DATA
from tiersnap.jobs.pipeline.audit.audit import audit
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.tables.spark_made_tables import AUDIT_FINDINGS, RECORD_BATCHES

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

LOGS = range(2_000)
_KEY = {"log_dir": "logs", "partition": 0}
_BATCHES = RECORD_BATCHES.append(pa.field("segment_size_bytes", pa.int64()))
_PARTITIONS = pa.schema(
    [
        *(RECORD_BATCHES.field(name) for name in ("log_dir", "topic", "partition")),
        ("log_start_offset", pa.int64()),
        ("log_start", pa.int64()),
        ("is_compacted", pa.bool_()),
        ("topic_id", pa.string()),
        ("cluster_id", pa.string()),
        ("leader_epoch", pa.int32()),
    ]
)
_IDS = pa.schema([("cluster_id", pa.string()), ("producer_id", pa.int64()), ("transactional_id", pa.string())])
_SEGMENTS = pa.schema([*list(_PARTITIONS)[:3], ("base_offset", pa.int64()), ("size_bytes", pa.int64())])


def _batch_rows(topic: str, log: AuditedLog) -> list[dict[str, Any]]:
    return [
        {
            **_KEY,
            "topic": topic,
            "segment_base_offset": base,
            "segment_size_bytes": log.sizes[base],
            **vars(batch),
        }
        for base, batches in log.segments.items()
        for batch in batches
    ]


def _as_tuple(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in AUDIT_FINDINGS.names if name not in ("run", "log_dir", "partition"))


def _found(spark: SparkSession, logs: dict[Any, AuditedLog], more: list[dict[str, Any]]) -> list[Row]:
    """What the audit finds in logs, each a partition of its own topic; `more`: rows of partitions without batches."""
    rows = [row for name, log in logs.items() for row in _batch_rows(str(name), log)]
    known = [
        {**_KEY, "topic": str(name), "log_start_offset": log.log_start_offset, "is_compacted": log.is_compacted}
        for name, log in logs.items()
    ]
    listed = [
        {**_KEY, "topic": str(name), "base_offset": base, "size_bytes": 1}
        for name, log in logs.items()
        for base in log.listed
    ]
    frames = (
        spark.createDataFrame(pa.Table.from_pylist(each, schema=schema))
        for each, schema in ((rows, _BATCHES), (known + more, _PARTITIONS), (listed, _SEGMENTS), ([], _IDS))
    )
    with audit(*frames, run=1, expiration=EXPIRATION) as audited:
        return audited.findings.collect()


@pytest.fixture(scope="module")
def logs() -> dict[int, AuditedLog]:
    return {number: generated_log(number) for number in LOGS}


def test_generated_logs_give_the_findings_of_the_plain_reference(
    spark: SparkSession, logs: dict[int, AuditedLog]
) -> None:
    # Two replicas without a batch: the newer leader's log starts lower.
    replicas = [
        {"log_dir": log_dir, "topic": "replicas", "partition": 0, "topic_id": "id", "is_compacted": False}
        | {"leader_epoch": epoch, "log_start_offset": first, "log_start": start}
        # The files of a tiered log begin anywhere, and of the last replica nothing tells where its log begins.
        for log_dir, epoch, first, start in (
            *(("a", 4, 1500, 1500), ("b", 4, 1400, 1400)),
            *(("c", 5, 1700, 1400), ("d", 6, 1600, 1400), ("e", 7, 200, None)),
        )
    ]
    found = _found(spark, logs, replicas)
    expected = [
        _as_tuple({"topic": str(number)} | row)
        for number, log in logs.items()
        for row in reference_audit(log, expiration=EXPIRATION)
    ]
    went_back = {"kind": "LOG_START_WENT_BACK", "rule": "0.4", "judgement": "", "harm": "NONE", "batches": 1}
    between = {"before_first_offset": 1500, "first_offset": 1400, "distance": 100}
    expected.append(_as_tuple({"topic": "replicas"} | went_back | between))
    assert sorted(map(repr, (_as_tuple(row.asDict()) for row in found))) == sorted(map(repr, expected))
    assert {row.kind for row in found} == set(map(str, AuditKind)), "every kind was met"


def test_each_case_has_the_findings_that_it_says(spark: SparkSession) -> None:
    found: dict[str, list[tuple[str, str, int]]] = {case.says: [] for case in CASES}
    for row in _found(spark, {case.says: case.log for case in CASES}, []):
        found[row.topic].append((row.kind, row.harm, row.first_offset))
    for case in CASES:
        assert sorted(found[case.says], key=lambda row: row[2]) == list(case.found), case.says


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The command on the bundled logs of 4.1.1, decoded into a warehouse, and its findings in the same."""
    warehouse = tmp_path_factory.mktemp("audit") / "warehouse"
    words = ("--source", DATA / "kafka-4.1.1" / "logs", "--topic", "fenced|hanging|payments|tv2", "--apply")
    assert tiersnap("decode", *words, "--warehouse", warehouse).exit_code == 0
    ran = tiersnap("audit", "--warehouse", warehouse, "--to", warehouse, "--limit", "5")
    return {"ran": ran, "warehouse": warehouse}


def test_topics_of_a_warehouse_are_selected_by_pythons_expressions(ran: dict[str, Any]) -> None:
    selected = tiersnap("audit", "--warehouse", ran["warehouse"], "--topic", "(?P<name>hang)ing|(?P<other>nothing)")
    assert selected.exit_code == 0, selected.err
    assert {row["topic"] for row in selected.rows} == {"hanging"}


def test_the_bundled_logs_show_their_fencing_and_their_open_transaction_and_no_gap_and_no_duplicate(
    spark: SparkSession, ran: dict[str, Any]
) -> None:
    assert ran["ran"].exit_code == 0, ran["ran"].err
    result = json.loads(ran["ran"].out)["result"]
    assert result["findings_by_kind"] == {"FENCED": 6, "OPEN_TRANSACTION": 2}
    assert result["findings_by_harm"] == {"NONE": 8}
    assert "partitions are assumed to be complete and not compacted" in ran["ran"].err, "no run has replayed them"
    kept = spark.read.format("delta").load(str(ran["warehouse"] / "audit_findings"))
    assert kept.columns == AUDIT_FINDINGS.names
    rows = kept.select("run", "kind", "topic", "before_first_offset", "first_offset").collect()
    found = sorted((row.kind, row.topic, row.before_first_offset or -1, row.first_offset) for row in rows)
    fenced = ((11, 12), (45, 46), (52, 53), (69, 70), (75, 76), (170, 171))
    assert found == [
        *(("FENCED", "fenced", before, after) for before, after in fenced),
        ("OPEN_TRANSACTION", "hanging", -1, 90),
        ("OPEN_TRANSACTION", "tv2", -1, 1637),
    ]
    assert {row.run for row in rows} == {1}


def test_only_as_many_rows_as_asked_for_are_printed_and_the_rest_is_named(ran: dict[str, Any]) -> None:
    assert len(ran["ran"].rows) == 5
    assert "3 findings more: --limit 8" in ran["ran"].err


def test_a_source_and_a_warehouse_are_refused_together_and_an_empty_warehouse_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    both = tiersnap("audit", "--source", tmp_path, "--warehouse", tmp_path)
    assert (both.exit_code, "both name an input" in both.err) == (2, True)
    empty = tiersnap("audit", "--warehouse", tmp_path)
    assert (empty.exit_code, "no table record_batches" in empty.err) == (2, True)
