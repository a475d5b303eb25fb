"""What the tables of a run say of risk and of a replica's answers is what a pass over the logs says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.fleet_joins import Row, key_of
from tests.reference.fleet_run import Runner
from tests.reference.surveying import headers_of, input_batches, survey_input
from tiersnap.jobs.cli.option_types import parse_time
from tiersnap.jobs.pipeline.risk import RiskPartition
from tiersnap.jobs.pipeline.simulate import SIMULATED, SimulatePartition
from tiersnap.snapshot.exactly_once.simulate.kinds import SnapshotOrigin
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings
from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings
from tiersnap.snapshot.replay.expiry import Expiry

pytestmark = pytest.mark.unit

LOGS = Path(__file__).parents[2] / "data" / "kafka-3.9.1" / "logs"
LEDGER = Path(__file__).parents[2] / "data" / "ledger-2.7.2" / "logs"
NOW = parse_time("2026-11-21T12:45:00Z")
DAY = 86_400_000
TOPICS = "orders|fenced|hanging|ledger"
# Of transactions that cross a segment's end the tables know no fate.
UNTOLD = ("aborted", "aborted_records", "aborted_bytes", "beginning_late", "undecided")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    runner = Runner(tmp_path_factory.mktemp("replayed"), LOGS)
    runner(sources=(str(LOGS), str(LEDGER)), apply=False, as_of=None, now=NOW, topic=re.compile(TOPICS))
    return runner


@pytest.fixture(scope="module")
def headers() -> list[Row]:
    return headers_of(LOGS, TOPICS) + headers_of(LEDGER, TOPICS)


def rows_of(runner: Runner, task, headers: list[Row] | None) -> list[Row]:
    keys = sorted({key_of(row) for row in runner.tables.partitions})
    inputs = (survey_input(runner.tables, key, headers) for key in keys)
    return [row for rows in inputs for batch in task(input_batches(rows)) for row in batch.to_pylist()]


def by_name(row: Row) -> Row:
    """Return a row without the members that tables do not tell."""
    counts = {name: dict(row[name]) for name in ("causes", "bounded_mismatches") if name in row}
    return {name: value for name, value in {**row, **counts}.items() if name not in UNTOLD}


@pytest.mark.parametrize("boundaries", [False, True], ids=["partitions", "boundaries"])
def test_the_tables_say_of_the_bundled_logs_what_a_pass_over_them_says(replayed, headers, boundaries) -> None:
    told = [by_name(row) for row in rows_of(replayed, RiskPartition(RiskSettings(NOW), boundaries), headers)]
    words = [
        "simulate",
        "--risk",
        LOGS,
        LEDGER,
        "--topic",
        TOPICS,
        "--now",
        str(NOW),
        *(["--boundaries"] if boundaries else []),
    ]
    said = [by_name(row) for row in tiersnap(*words).rows]
    order = ("log_dir", "topic", "partition", *(["offset"] if boundaries else []))
    key = lambda row: [row[name] for name in order]  # noqa: E731
    assert sorted(told, key=key) == sorted(said, key=key)
    assert any(row["degraded"] for row in said)
    # No bundled log lacks a snapshot where an empty one would lose anybody.
    assert any(row["lost"] for row in said) == boundaries


def test_without_headers_bytes_are_not_known_and_all_else_is_as_it_was(replayed, headers) -> None:
    task = RiskPartition(RiskSettings(NOW), True)
    of_batches = ("doubled_bytes", "doubled_records", "degraded")
    with_headers, without = (
        [
            {name: value for name, value in row.items() if name not in of_batches}
            for row in rows_of(replayed, task, each)
        ]
        for each in (headers, None)
    )
    key = lambda row: [row[name] for name in ("log_dir", "topic", "partition", "offset")]  # noqa: E731
    assert sorted(without, key=key) == sorted(with_headers, key=key)
    assert all(row["doubled_bytes"] is None for row in rows_of(replayed, task, None) if row["doubled"])


def test_a_partition_that_is_gone_or_was_never_replayed_has_no_rows() -> None:
    assert list(RiskPartition(RiskSettings(NOW))(iter([]))) == []


@pytest.mark.parametrize("origin", [SnapshotOrigin.OURS, SnapshotOrigin.EMPTY])
def test_simulated_from_the_tables_every_answer_is_that_of_the_log(replayed, headers, origin) -> None:
    task = SimulatePartition(origin, SimulationSettings(Expiry(7 * DAY, NOW), DAY))
    rows = [row for row in rows_of(replayed, task, headers) if row["write"] is not None]
    told = Counter({_answer(row, f"{row['topic']}-{row['partition']}"): row["writes"] for row in rows})
    said: Counter = Counter()
    for logs in (LOGS, LEDGER):
        ran = tiersnap("simulate", logs, "--topic", TOPICS, "--from", str(origin), "--now", str(NOW), "--all")
        said += Counter({_answer(row, row["partition"]): row["writes"] for row in ran.rows})
    assert told == said
    assert told


def _answer(row: Row, partition: str) -> tuple[object, ...]:
    return partition, *(row[name] for name in SIMULATED.names if name != "writes")
