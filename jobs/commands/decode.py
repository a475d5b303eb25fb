"""`tiersnap decode`: write batch headers to a Delta table, on Spark."""

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

DamageCount = Annotated[int, Meta(description="number of all findings; `findings` has at most the first thousand")]
LegacyCount = Annotated[int, Meta(description="undamaged segments that end with entries of magic 0 or 1")]


@dataclass(frozen=True, slots=True)
class DecodedSegments:
    """Counts of the segments that `decode` read."""

    COLUMNS: ClassVar = ("segments", "size", "batches", "stale_segments")
    segments: int
    bytes: int
    size: ForPeople
    batches: int
    stale_segments: Annotated[
        int,
        Meta(
            description="segments whose rows were deleted from the table, because their log no longer has the batches"
        ),
    ]


@dataclass(frozen=True, slots=True)
class DecodeSummary:
    """Counts of segments that were not decoded completely."""

    damage_count: DamageCount | UnsetType = UNSET
    legacy_count: LegacyCount | UnsetType = UNSET


@command(DecodedSegments, summary=DecodeSummary)
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    help="Log directory: a path, file:, s3: or hdfs:; repeatable.",
)
@opt.warehouse_option
@opt.topic_option
@opt.crc_option
@opt.store_options
@spark_options
@opt.apply_option("Append to the table; without --apply count the segments.")
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
    """Write the header of every batch to the table `record_batches`, for analysis. Keys and values are not read.

    tiersnap decode --source /var/lib/kafka/data --apply

    The next call appends new and changed segments. If a segment has grown, use its rows with the greatest `run`.

    Rows are deleted if a truncation, the log cleaner or a new topic of the same name removed their batches from the
    log. Rows of segments that retention deleted are kept.

    If a segment is damaged, its rows end at the damage, and the exit code is 5.
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
        output.talk("nothing was written; to write, add --apply")
    elif not done.segments and not done.stale:
        output.talk("nothing to do: the table has the batches of every segment, and no segment has changed")
    return exit_code_of(done.damage.kinds)


def damage_counts(damage: Damage) -> tuple[int | UnsetType, int | UnsetType]:
    """Return the members `damage_count` and `legacy_count` of a summary."""
    return damage.damaged or UNSET, damage.legacy_count or UNSET


def of_damage(damage: Damage) -> Iterator[str]:
    """Yield messages about segments that were not decoded completely."""
    if damage.more:
        yield f"{count_of(damage.more, 'finding')} more: tiersnap scan LOGDIR prints all"
    if damage.damaged:
        yield "damaged segments were decoded only up to the damage; to see the next step: tiersnap scan LOGDIR"
    if damage.legacy_count:
        segments = count_of(damage.legacy_count, "segment ends", "segments end")
        yield f"{segments} with entries of magic 0 or 1, which name no producers; tiersnap did not decode these entries"
