"""`tiersnap maintain tables`: superseded rows, small files and old files of a warehouse go, on Spark."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.old_options.spark import SparkRequest, spark_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.maintain_tables import show
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.log.places import located

_HOUR_MS = 3_600_000


@click.command("tables")
@click.option("--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables.")
@click.option(
    "--vacuum-after",
    type=params.Duration(),
    default="7d",
    show_default=True,
    help="Files that no version of that age needs are deleted.",
)
@s3_options
@spark_options
@click.option("--apply", is_flag=True, help="Delete; without it the rows are counted.")
@params.output_option
@click.pass_obj
def maintain_tables(
    output: Output,
    warehouse: str,
    vacuum_after: int | None,
    s3: S3Settings,
    spark: SparkRequest,
    apply: bool,
) -> int:
    """Delete the rows that a later run superseded and those of segments that are gone, and compact the files.

    What a run or a report reads stays as it is. A table's older versions can be read until their files are vacuumed.
    """
    if vacuum_after is None:
        raise UsageError("--vacuum-after takes a time", hint="Delta keeps older versions for 7d")
    from tiersnap.jobs.pipeline.maintenance import maintain
    from tiersnap.jobs.pipeline.one_run import only_run
    from tiersnap.jobs.pipeline.settings import new_run_id
    from tiersnap.jobs.pipeline.warehouse import Warehouse

    with only_run(located(warehouse), new_run_id(), s3) as check:
        tables = Warehouse(spark.session(), located(warehouse), check)
        done = list(maintain(tables, apply=apply, vacuum_after_hours=vacuum_after / _HOUR_MS))
    show(output, warehouse, done, applied=apply)
    return ExitCode.OK
