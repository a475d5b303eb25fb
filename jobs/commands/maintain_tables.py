"""`tiersnap maintain tables`: superseded rows, small files and old files of a warehouse go, on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from tiersnap.jobs import options as opt
from tiersnap.jobs.command import command
from tiersnap.jobs.option_types import DURATION
from tiersnap.jobs.output import Output
from tiersnap.jobs.sentences import ForPeople
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.units import human_bytes

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """A table of `maintain tables`."""

    COLUMNS: ClassVar = ("table", "rows", "superseded", "files", "size")
    table: str
    rows: int
    superseded: int
    files: int
    bytes: int
    size: ForPeople


@command(MaintainedTable, name="tables")
@opt.warehouse_option
@click.option(
    "--vacuum-after",
    type=DURATION,
    default="7d",
    show_default=True,
    help="Files that no version of that age needs are deleted.",
)
@opt.s3_options
@opt.spark_options
@opt.apply_option("Delete; without it the rows are counted.")
def maintain_tables(
    output: Output, warehouse: str, vacuum_after: int | None, s3: S3Settings, spark: opt.SparkRequest, apply: bool
) -> int:
    """Delete the rows that a later run superseded and those of segments that are gone, and compact the files.

    tiersnap maintain tables --warehouse s3://lake/tiersnap
    tiersnap maintain tables --warehouse s3://lake/tiersnap --apply

    Rows that a run or a report reads stay. A table's older versions can be read until their files are vacuumed.
    """
    if vacuum_after is None:
        raise UsageError("--vacuum-after takes a time", hint="Delta keeps older versions for 7d")
    from tiersnap.jobs.pipeline.maintenance import maintain
    from tiersnap.jobs.pipeline.one_run import only_run
    from tiersnap.jobs.pipeline.settings import new_run_id
    from tiersnap.jobs.pipeline.warehouse import Warehouse
    from tiersnap.snapshot.log.places import located

    with only_run(located(warehouse), new_run_id(), s3) as check:
        tables = Warehouse(spark.session(), located(warehouse), check)
        done = list(maintain(tables, apply=apply, vacuum_after_hours=vacuum_after / _HOUR_MS))
    rows = [
        MaintainedTable(each.table, each.rows, each.superseded, each.files, each.size, human_bytes(each.size))
        for each in done
    ]
    output.rows(MaintainedTable, rows)
    if not done:
        output.talk(f"{warehouse}: no tables yet: tiersnap run fills them")
    elif not apply:
        output.talk("nothing was deleted: give --apply")
    return ExitCode.OK
