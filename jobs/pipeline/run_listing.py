"""The first stages of a run: list the sources, find the changed partitions, and compute the totals in one query."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.cli.text_files import unknown_topics
from tiersnap.jobs.pipeline import counts, leading, listing, schemas
from tiersnap.jobs.pipeline.changes import partition_changes
from tiersnap.jobs.pipeline.known import gone_partitions, newest_runs
from tiersnap.jobs.pipeline.listing import ListPartitions
from tiersnap.jobs.pipeline.remote_states import differences
from tiersnap.jobs.pipeline.run_context import RunContext
from tiersnap.jobs.pipeline.totals import RunTotals, asked, of_changes, of_listing, refuse
from tiersnap.remote_storage.remote_log.listing_ahead import ListingAhead
from tiersnap.snapshot.units import count_of, human_bytes

_NUMBERED = ("segments", "partitions", "remote_log_segments", "runs")


@dataclass(frozen=True)
class RunListing:
    """The listed partitions of one run.

    Attributes:
        replicas: all replicas in the sources (schema LISTED).
        found: the replicas that --leader selects; equal to `replicas` if the option is not given.
        listed: the replicas that the run uses, one per partition.
        leaders: the leaders (schema LEADERS); None if the run chose the replicas without asking the cluster.
    """

    replicas: DataFrame
    found: DataFrame
    listed: DataFrame
    leaders: DataFrame | None


def list_sources(run: RunContext) -> RunListing:
    """List the partitions of the sources, and choose one replica per partition.

    Raises:
        UnfinishedError: for every partition, it is unknown which replica belongs to the leader.
        TransientError: no replica can be chosen for any partition, and the first partition has no leader now.
    """
    settings, leaders = run.settings, run.given.leaders
    _count_found(run)
    folders = listing.folders(run.spark, run.given.found.folders, told=run.given.told, records=run.given.records)
    task = ListPartitions(
        settings.topic_ids,
        replace(run.look, ahead=ListingAhead()),
        since=settings.replay.since(settings.now),
        wants_start=not run.warehouse.exists("partitions"),
        living=settings.replay.broker_expiry(settings.now),
    )
    replicas = run.warehouse.keep("listed", listing.list_partitions(folders, task), schemas.LISTED)
    if settings.leaders:
        found = leading.led(replicas, settings.leaders)
        return RunListing(replicas, found, found, None)
    if leaders is None:
        return RunListing(replicas, replicas, replicas, None)
    rows = run.spark.createDataFrame(leaders)
    counts.count_unled(run.outcome, leading.unled(replicas, rows))
    led = leading.led_by_cluster(replicas, rows)
    if run.outcome.errors and led.isEmpty():
        raise run.outcome.errors[0]
    return RunListing(replicas, replicas, led, rows)


def _count_found(run: RunContext) -> None:
    found, outcome, settings = run.given.found, run.outcome, run.settings
    outcome.findings = list(found.findings[: counts.MOST_TOLD])
    outcome.unknown_topics = unknown_topics(settings.topic_ids, run.given.topics, settings.topics)
    outcome.finding_count = len(found.findings)
    outcome.kinds |= {each.finding_kind for each in found.findings}


def changes_of(run: RunContext, listed: DataFrame) -> DataFrame:
    """Compare the listed partitions with the current tables; see `partition_changes` for the result."""
    return partition_changes(
        listed,
        run.warehouse.read("segments"),
        run.warehouse.read("partitions"),
        run.warehouse.read("remote_log_segments"),
        options_digest=run.options_digest,
        check_crc=run.settings.check_crc,
    )


def remote_differences(run: RunContext, listed: DataFrame) -> DataFrame:
    """Return the rows to append to `remote_log_segments`; see `differences`."""
    return differences(listed, run.warehouse.read("remote_log_segments"), run=run.number)


def gone(run: RunContext, found: RunListing) -> DataFrame:
    """Return a GONE row for each partition that this run did not find again; see `gone_partitions`."""
    there = leading.still_led(found.found, found.listed, found.leaders)
    table, settings = run.warehouse.read("partitions"), run.settings
    return gone_partitions(table, there, sources=settings.sources, topics=settings.topics, run=run.number)


def count_all(run: RunContext, found: RunListing, changed: DataFrame) -> RunTotals:
    """Compute the totals of the listed partitions in one query, and set the number of the run.

    Args:
        run: the run.
        found: the listing.
        changed: rows of `partition_changes`.

    Raises:
        NotALogDirError, UsageError: see `totals.refuse`.
    """
    of_replicas = found.replicas.agg(
        F.count("known").alias("replicas_without_producers"), F.count("error").alias("unasked")
    )
    totals = asked(
        [
            of_changes(changed),
            of_listing(found.listed),
            newest_runs(*map(run.warehouse.read, _NUMBERED)),
            of_replicas,
            remote_differences(run, found.listed).agg(F.count("*").alias("differences")),
            gone(run, found).agg(F.count("*").alias("gone")),
        ]
    )
    refuse(totals, changed, run.settings.sources)
    run.warehouse.number = totals.newest + 1
    outcome = run.outcome
    outcome.partitions, outcome.segments = totals.partitions, totals.segment_count
    outcome.encryption_unknown, outcome.has_leftovers = totals.unknown_encryption, totals.left > 0
    counts.count_listed(outcome, totals, found.listed)
    counts.count_lost(outcome, totals.lost, found.listed, run.location.words, run.collected)
    counts.count_replicas_without_producers(outcome, totals.replicas_without_producers, found.replicas, run.collected)
    _tell(run, totals)
    return totals


def _tell(run: RunContext, totals: RunTotals) -> None:
    run.talk(f"listed {count_of(totals.segment_count, 'segment')} of {count_of(totals.partitions, 'partition')}")
    if totals.left_out_count:
        why = "the segments are in remote storage"
        if run.is_bounded:
            why += ", or end before the scan window"
        run.talk(f"skipped {count_of(totals.left_out_count, 'segment')} ({human_bytes(totals.left_out_bytes)}): {why}")
