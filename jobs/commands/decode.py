"""`tiersnap decode`: batch headers into a Delta table, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.sentences import ForPeople
from tiersnap.jobs.pipeline.spark_options import SparkRequest, spark_options
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.damage import Damage

DamageCount = Annotated[int, Meta(description="of all; `findings` has the first thousand")]
LegacyCount = Annotated[int, Meta(description="sound segments that end with entries of magic 0 or 1")]


@dataclass(frozen=True, slots=True)
class DecodedSegments:
    """All that `decode` read."""

    COLUMNS: ClassVar = ("segments", "size", "batches", "stale_segments")
    segments: int
    bytes: int
    size: ForPeople
    batches: int
    stale_segments: Annotated[
        int, Meta(description="whose rows were deleted: their batches are not in the log any more")
    ]


@dataclass(frozen=True, slots=True)
class DecodeSummary:
    """The segments that were not decoded."""

    damage_count: DamageCount | UnsetType = UNSET
    legacy_count: LegacyCount | UnsetType = UNSET


@command(DecodedSegments, summary=DecodeSummary)
@click.option("--source", "sources", multiple=True, required=True, help="A log directory: path, file:, s3: or hdfs:.")
@opt.warehouse_option
@opt.topic_option
@opt.crc_option
@opt.store_options
@spark_options
@opt.apply_option("Append to the table; without it the segments are counted.")
def decode(
    output: Output,
    sources: tuple[str, ...],
    warehouse: str,
    topic: opt.TopicPattern,
    check_crc: bool,
    stores: opt.StoreSettings,
    spark: SparkRequest,
    apply: bool,
) -> int:
    """Write the header of every batch to the table `record_batches`, for analysis; no key and no value is read.

    tiersnap decode --source /var/lib/kafka/data --apply

    If you run it again, it appends new and changed segments; of a segment that grew, read the rows with the greatest
    `run`. It deletes rows whose batches a truncation, a cleaner's merge or a new topic of the name took out of the log;
    rows that retention took stay. The exit code is 5 if a log is damaged; the rows of such a segment end at the damage.
    """
    from tiersnap.jobs.pipeline.decode_job import DecodeSettings
    from tiersnap.jobs.pipeline.decode_job import decode as decode_batches
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.places import located, places_of

    places = places_of(sources), located(warehouse)
    done = decode_batches(spark.session, DecodeSettings(*places, topic, apply, check_crc=check_crc, stores=stores))
    row = DecodedSegments(done.segments, done.bytes, human_bytes(done.bytes), done.batches, done.stale)
    summary = DecodeSummary(*damage_counts(done.damage))
    output.rows(DecodedSegments, [row], summary=summary, findings=done.damage.findings)
    output.talk(*of_damage(done.damage))
    if not apply:
        output.talk("nothing was written: give --apply")
    elif not done.segments and not done.stale:
        output.talk("nothing to do: the table has every segment in its present state")
    return exit_code_of(done.damage.kinds)


def damage_counts(damage: Damage) -> tuple[int | UnsetType, int | UnsetType]:
    """Return the members `damage_count` and `legacy_count` of a summary."""
    return damage.damaged or UNSET, damage.legacy_count or UNSET


def of_damage(damage: Damage) -> Iterator[str]:
    """Yield lines about segments that were not decoded completely, besides the findings."""
    if damage.more:
        yield f"{count_of(damage.more, 'finding')} more: tiersnap scan LOGDIR shows all"
    if damage.damaged:
        yield "segments were decoded only up to their damage: tiersnap scan LOGDIR prints the next step"
    if damage.legacy_count:
        segments = count_of(damage.legacy_count, "segment ends", "segments end")
        yield f"{segments} with entries of magic 0 or 1, which have no producers: they were not decoded"
