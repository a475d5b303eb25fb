"""The fold of a record_batches table on two cores, against DuckDB and Polars over the same files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

from pyarrow import fs
from tiersnap.snapshot.stages.fold_table import fold_file

from tests.perf.make_table import PRODUCERS, made
from tests.perf.measure import Row, interleaved, timed, warm_cache
from tests.perf.scale import Scale

PROCESSES = 2


def fold(path: str) -> int:
    """Producer deltas of one file; in a process of a pool."""
    return sum(deltas.size for _, deltas in fold_file(fs.LocalFileSystem(), path))


def rows(scale: Scale) -> Iterator[Row]:
    """Same files, same groups: one row a segment and producer."""
    folder = made(scale.table_rows)
    files = sorted(folder.glob("*.parquet"))
    warm_cache(files)
    counts: dict[str, int] = {}

    def ours(pool: Pool) -> None:
        counts["ours"] = sum(pool.map(fold, map(str, files), chunksize=1))

    def one_core() -> None:
        for file in files:
            fold(str(file))

    polars = _polars(folder, counts)
    with get_context("spawn").Pool(PROCESSES) as pool:
        two, one, by_duckdb, by_polars = interleaved(
            scale.repetitions, timed(lambda: ours(pool)), timed(one_core), timed(_duckdb(folder, counts)), timed(polars)
        )
    assert len(set(counts.values())) == 1, counts

    def speed(seconds: float) -> str:
        return f"{scale.table_rows / seconds / 1e6:.1f} M rows/s"

    what = f"fold of record_batches, {scale.table_rows / 1e6:.0f} M rows, {PRODUCERS} producers"
    yield Row(
        f"{what}, 2 processes",
        "≥ 1\N{MULTIPLICATION SIGN}",
        speed(two),
        f"{speed(by_duckdb)} (DuckDB arg_max, 2 threads)",
        by_duckdb / two,
        by_duckdb >= two,
    )
    yield Row(f"{what}, 1 process", "", speed(one), f"{speed(by_duckdb)} (DuckDB, 2 threads)", by_duckdb / one, None)
    yield Row(f"{what}, 2 processes", "", speed(two), f"{speed(by_polars)} (Polars, 2 threads)", by_polars / two, None)


def _duckdb(folder: Path, counts: dict[str, int]) -> Callable[[], None]:
    import duckdb

    connection = duckdb.connect(config={"threads": PROCESSES})
    query = f"""
        SELECT segment_base_offset, producer_id,
               arg_max(producer_epoch, base_offset) AS producer_epoch,
               arg_max(max_timestamp, base_offset) AS timestamp,
               max(base_offset + last_offset_delta) FILTER (control_type < 0) AS last_offset,
               arg_max(base_sequence + last_offset_delta, base_offset) FILTER (control_type < 0) AS last_sequence,
               arg_max(last_offset_delta, base_offset) FILTER (control_type < 0) AS offset_delta,
               arg_max(coordinator_epoch, base_offset) FILTER (control_type >= 0) AS coordinator_epoch,
               max(base_offset) FILTER (attributes = 16) AS transaction
        FROM read_parquet('{folder}/*.parquet') WHERE producer_id >= 0 GROUP BY ALL"""

    def work() -> None:
        counts["duckdb"] = connection.sql(query).to_arrow_table().num_rows

    return work


def _polars(folder: Path, counts: dict[str, int]) -> Callable[[], None]:
    os.environ["POLARS_MAX_THREADS"] = str(PROCESSES)
    import polars as pl

    def last(name: str, condition: pl.Expr) -> pl.Expr:
        return pl.col(name).filter(condition).last()

    is_data, is_marker = pl.col("control_type") < 0, pl.col("control_type") >= 0

    def work() -> None:
        # Rows of a segment come in offset order, and a group keeps the order it met them in.
        folded = (
            pl.scan_parquet(f"{folder}/*.parquet")
            .filter(pl.col("producer_id") >= 0)
            .group_by("segment_base_offset", "producer_id")
            .agg(
                pl.col("producer_epoch").last(),
                pl.col("max_timestamp").last(),
                last("base_offset", is_data),
                last("base_sequence", is_data),
                last("last_offset_delta", is_data),
                last("coordinator_epoch", is_marker),
                last("base_offset", pl.col("attributes") == 16).alias("transaction"),
            )
            .collect()
        )
        counts["polars"] = folded.height

    return work
