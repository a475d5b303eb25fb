"""A warehouse read by deltalake, DuckDB and Polars, as docs/warehouse.md shows it; Spark's reader is in tests/spark."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from tests.reference.questions import ANSWERS, HISTORY, QUESTIONS
from tiersnap.snapshot.tables.facts import PARTITIONS
from tiersnap.snapshot.tables.spark_made_tables import RUNS

pytestmark = pytest.mark.unit

PAGE = (Path(__file__).parents[2] / "docs/warehouse.md").read_text(encoding="utf-8")
EXAMPLES = {
    name: textwrap.dedent(code)
    for name, code in re.findall(r"^\*\*(\w+)\*\*(?:(?!```).)*```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
}
RUNS_EXAMPLE = re.findall(r"^## The runs\n.*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)[0]
SAYS = "producer 7 is not in the file"


def row(run: int, offset: int, found: str, *, has_ended: bool = False) -> dict[str, object]:
    """A boundary; every other column is null, or what stands for nothing where it must not be."""
    known: dict[str, object] = {
        "log_dir": "/data", "topic": "orders", "partition": 0, "kind": "BOUNDARY", "snapshot_offset": offset, "part": 0,
        "run": run, "compared": found, "explanation": SAYS, "has_ended": has_ended,
    }  # fmt: skip
    for field in PARTITIONS:
        if field.name not in known:
            known[field.name] = None if field.nullable else _nothing(field.type)
    return known


def _nothing(kind: pa.DataType) -> object:
    if pa.types.is_string(kind):
        return ""
    return False if pa.types.is_boolean(kind) else 0


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs over one partition: of three SUSPECT snapshots one stays, one MATCHES now, and one has ended."""
    folder = tmp_path / "tiersnap-warehouse"
    first = [row(1, offset, "SUSPECT") for offset in (5, 10, 15)]
    for rows in (first, [row(2, 10, "MATCHES"), row(2, 15, "SUSPECT", has_ended=True)]):
        write_deltalake(folder / "partitions", pa.Table.from_pylist(rows, schema=PARTITIONS), mode="append")
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("reader", ["deltalake", "DuckDB", "Polars"])
def test_an_example_counts_the_newest_rows_alone(reader: str, warehouse: Path) -> None:
    pytest.importorskip(reader.lower())
    names: dict[str, object] = {}
    exec(compile(EXAMPLES[reader], f"docs/warehouse.md, {reader}", "exec"), names)
    suspect = names["suspect"]
    assert [tuple(each) for each in suspect] == [("orders", 0, 5, SAYS)]


def test_the_sql_of_the_page_lists_the_runs_the_newest_first(warehouse: Path) -> None:
    pytest.importorskip("duckdb")
    row = dict.fromkeys(RUNS.names, 0) | {"tool": "tiersnap 0.1.0", "settings": '{"remote": "s3://b/x"}'}
    for changed in (
        {"run": 1, "run_id": "first", "started_at": 1000, "finished_at": 3500, "bytes_uploaded": 2048},
        {"run": 2, "run_id": "second", "started_at": 9000, "finished_at": 9100, "errors": 1},
    ):
        write_deltalake(warehouse / "runs", pa.Table.from_pylist([row | changed], schema=RUNS), mode="append")
    names: dict[str, list[tuple[object, ...]]] = {}
    exec(compile(RUNS_EXAMPLE, "docs/warehouse.md, runs", "exec"), names)
    assert [(run_id, str(started), *rest) for run_id, started, *rest in names["history"]] == [
        ("second", "1970-01-01 00:00:09", 0.1, 0, 0, 0, 1, row["settings"]),
        ("first", "1970-01-01 00:00:01", 2.5, 0, 0, 2048, 0, row["settings"]),
    ]


def test_bare_parquet_counts_superseded_rows_and_rows_of_files_that_the_table_no_longer_has(warehouse: Path) -> None:
    table = DeltaTable(warehouse / "partitions")
    table.optimize.compact()
    assert DeltaTable(warehouse / "partitions").to_pyarrow_table().num_rows == 5
    duckdb = pytest.importorskip("duckdb")
    bare = f"select count(*) from read_parquet('{warehouse}/partitions/*.parquet') where compared = 'SUSPECT'"
    assert duckdb.sql(bare).fetchall() == [(8,)], "one is right: the rest is superseded, or of compacted files"


def test_the_page_answers_five_questions() -> None:
    assert set(QUESTIONS) == set(ANSWERS)
    assert len(QUESTIONS) == 5


@pytest.mark.parametrize("question", ANSWERS)
@pytest.mark.parametrize("reader", ["duckdb", "delta-rs"])
def test_a_question_is_one_sql_statement(question: str, reader: str, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "readiness", HISTORY)
    table = DeltaTable(tmp_path / "readiness")
    if reader == "duckdb":
        connection = pytest.importorskip("duckdb").connect()
        connection.register("readiness", table.to_pyarrow_dataset())
        found = connection.sql(QUESTIONS[question]).fetchall()
    else:
        rows = pa.table(QueryBuilder().register("readiness", table).execute(QUESTIONS[question]))
        found = [tuple(row.values()) for row in rows.to_pylist()]
    assert sorted(found) == sorted(ANSWERS[question])


def test_the_page_shows_four_readers() -> None:
    assert set(EXAMPLES) == {"Spark", "deltalake", "DuckDB", "Polars"}
