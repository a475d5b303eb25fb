"""`tiersnap decode`: batch headers into a Delta table, on Spark."""

from __future__ import annotations

import re

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.old_options.spark import SparkRequest, spark_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.damage import summary_of, talk_of
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.log.places import located, places_of
from tiersnap.snapshot.units import human_bytes


@click.command()
@click.option("--source", "sources", multiple=True, required=True, help="A log directory: path, file:, s3: or hdfs:.")
@click.option("--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables.")
@params.topic_option
@params.crc_option
@s3_options
@spark_options
@click.option("--apply", is_flag=True, help="Append to the table; without it the segments are counted.")
@params.output_option
@click.pass_obj
def decode(
    output: Output,
    sources: tuple[str, ...],
    warehouse: str,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    s3: S3Settings,
    spark: SparkRequest,
    apply: bool,
) -> int:
    """Write the header of every batch to the table `record_batches`, for analysis; no key and no value is read.

    Run again, it appends what is new or has changed: of a segment that grew, the rows of the greatest `run` count.
    Rows of segments whose batches are not in their log any more, after a truncation or a cleaner's merge, or because
    the topic was made anew, are deleted; what retention took stays. Exit code 5 where a log is damaged: of
    such a segment the rows end at the damage.
    """
    from tiersnap.jobs.pipeline.decode import DecodeSettings
    from tiersnap.jobs.pipeline.decode import decode as decode_batches

    places = places_of(sources), located(warehouse)
    done = decode_batches(spark.session, DecodeSettings(*places, topic, check_crc, apply, s3))
    row = {"segments": done.segments, "bytes": done.bytes, "size": human_bytes(done.bytes), "batches": done.batches}
    row["stale_segments"] = done.stale
    output.row_dicts(
        "decode",
        [row],
        columns=("segments", "size", "batches", "stale_segments"),
        summary=summary_of(done.damage),
        findings=done.damage.findings,
    )
    for line in talk_of(done.damage):
        output.talk(line)
    if not apply:
        output.talk("nothing was written: give --apply")
    elif not done.segments and not done.stale:
        output.talk("nothing to do: every segment is in the table as it is now")
    return done.damage.exit_code
