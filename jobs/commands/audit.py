"""`tiersnap audit`: what the headers of batches say of exactly-once, on Spark."""

from __future__ import annotations

import re
from functools import partial

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.old_options.spark import SparkRequest, spark_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.session import LONG_WORK
from tiersnap.jobs.tell.audit import show
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.places import located, places_of


@click.command()
@click.option("--source", "sources", multiple=True, help="A log directory to decode now: path, file:, s3: or hdfs:.")
@click.option(
    "--warehouse",
    help="Folder of Delta tables: audit the table record_batches that `tiersnap decode` wrote.  [default: "
    "tiersnap-warehouse, without --source]",
)
@click.option("--to", help="Warehouse to whose table audit_findings all findings are appended.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Findings to print, the worst first."
)
@params.topic_option
@params.crc_option
@params.producer_expiration_option
@s3_options
@spark_options
@params.output_option
@click.pass_obj
def audit(
    output: Output,
    sources: tuple[str, ...],
    warehouse: str | None,
    to: str | None,
    limit: int,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    producer_expiration: int | None,
    s3: S3Settings,
    spark: SparkRequest,
) -> int:
    """Say where a log breaks exactly-once: duplicates, gaps, zombies, holes; by headers alone, no key and no value.

    One row a finding, with the offsets on both sides, the number of the rule, and a judgement: whether records are
    lost, or a broker only forgot a producer that retention or expiry took from it. Exit code 5 if any finding says
    that records were lost or doubled, that a fenced producer or coordinator wrote, or that a transaction holds what is
    not its own; and where a log is damaged, for nothing is known of what lies behind.
    """
    from tiersnap.jobs.pipeline.audit.job import AuditSettings
    from tiersnap.jobs.pipeline.audit.job import audit as audit_headers

    if sources and warehouse is not None:
        raise UsageError("--source and --warehouse are two inputs: give one", hint="--to says where findings go")
    settings = AuditSettings(
        sources=places_of(sources),
        warehouse=None if sources else located(warehouse or "tiersnap-warehouse"),
        to=None if to is None else located(to),
        topic=topic,
        check_crc=check_crc,
        producer_expiration=producer_expiration,
        limit=limit,
        s3=s3,
    )
    done = audit_headers(partial(spark.session, java_options=LONG_WORK), settings)
    show(output, done)
    return done.exit_code
