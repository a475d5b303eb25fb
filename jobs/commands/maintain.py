"""`tiersnap maintain`: remove orphans from remote storage; on Spark, remove old rows and files of the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Meta

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import Group, command
from tiersnap.jobs.cli.option_types import DURATION
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.sentences import ByName, tell_old_versions
from tiersnap.jobs.pipeline.maintained_table import MaintainedTable
from tiersnap.jobs.pipeline.spark_options import SparkRequest, spark_options
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.remote_storage.retire.orphan_kinds import Orphan, OrphanKind
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.units import count_of, format_duration, utc

if TYPE_CHECKING:
    from tiersnap.remote_storage.retire.orphans_find import OrphansOutcome


_HOUR_MS = 3_600_000


@command(MaintainedTable, name="tables")
@opt.warehouse_option
@click.option(
    "--vacuum-after",
    type=DURATION,
    default="7d",
    show_default=True,
    help="Delete a file if only table versions older than this need the file.",
)
@opt.store_options
@spark_options
@opt.apply_option("Delete the rows and files; without --apply count the rows.")
def maintain_tables(
    output: Output,
    warehouse: str,
    vacuum_after: int | None,
    stores: opt.StoreSettings,
    spark: SparkRequest,
    apply: bool,
) -> None:
    """Delete rows that a later run replaced and rows of deleted segments, and compact the files.

    tiersnap maintain tables --warehouse s3://lake/tiersnap
    tiersnap maintain tables --warehouse s3://lake/tiersnap --apply

    Rows that a run or a report reads are kept. Old versions of a table stay readable until --vacuum-after deletes their
    files.
    """
    if vacuum_after is None:
        raise UsageError("--vacuum-after needs a duration", hint="Delta's default is 7d")
    from tiersnap.jobs.cli.delta_tables import no_rows
    from tiersnap.jobs.pipeline.maintenance import maintain
    from tiersnap.jobs.pipeline.one_writer import only_run
    from tiersnap.jobs.pipeline.warehouse import Warehouse, is_no_warehouse
    from tiersnap.snapshot.log.places import located
    from tiersnap.snapshot.report.run_info import new_run_id

    place = located(warehouse)
    if not spark.is_on_server and is_no_warehouse(place):
        raise no_rows(warehouse, "")
    with only_run(place, new_run_id(), stores, writes=apply) as check:
        tables = Warehouse(spark.session(), place, check)
        done = list(maintain(tables, apply=apply, vacuum_after_hours=vacuum_after / _HOUR_MS))
    if spark.is_on_server and not done:
        raise no_rows(warehouse, "")
    output.rows(MaintainedTable, done)
    if not done:
        output.talk(f"{warehouse}: no tables exist yet: tiersnap run --apply creates them")
    elif not apply:
        output.talk("nothing was deleted; to delete, add --apply")


_ORPHAN_COLUMNS = ("topic", "partition", "kind", "action", "objects", "size", "name", "reason")


@dataclass(frozen=True, slots=True)
class OrphansSummary:
    """Totals of `maintain remove-orphans`."""

    orphans: ByName
    removed: int
    bytes: Annotated[int, Meta(description="bytes of all orphans that the plan removes")]
    younger: Annotated[int, Meta(description="orphan objects that are too young to be removed now")]
    younger_removable_at: Annotated[
        int | None,
        Meta(description="epoch ms by the store's clock: the time from which all `younger` orphans may be removed"),
    ]


@command(Orphan, name="remove-orphans", summary=OrphansSummary)
@opt.cluster_options(required=True)
@opt.remote_option
@opt.store_options
@opt.topic_option
@click.option(
    "--older-than",
    type=DURATION,
    default="1d",
    show_default=True,
    help="Keep orphans that are younger than this, by the clock of remote storage.",
)
@metrics_options
@opt.apply_option("Remove the orphans; without --apply print the plan.")
def remove_orphans(
    output: Output,
    cluster: opt.Cluster,
    remote: str,
    stores: opt.StoreSettings,
    topic: opt.TopicPattern,
    older_than: int | None,
    sinks: Sinks,
    apply: bool,
) -> int:
    r"""Remove objects of tiersnap that no record of the cluster names, and failed copy attempts of brokers.

    tiersnap maintain remove-orphans --bootstrap-server broker-1:9092 \
      --remote s3://bucket/tiers

    The command recognises tiersnap's objects by one of two signs: a claim names the attempt, or a manifest names the
    snapshot. The partition's cluster.json must name this cluster. __remote_log_metadata must have no record of the
    segment, or a record that the segment was deleted. Segments that are published or may still be published are kept.

    A segment's log is removed only after other, published segments with the same offsets were read completely. If they
    cannot be read, the row has the reason and the next command. The command keeps objects that are too young. It prints
    their number, and the time from which they may be removed.

    A broker's failed attempt has only a COPY_SEGMENT_STARTED record. It is removed under two conditions: the same
    broker started a later attempt, and published segments contain the same offsets and were read completely.

    The command searches both layouts, so there is no --layout.
    """
    from tiersnap.remote_storage.cluster.cluster_records import ClusterRecords
    from tiersnap.remote_storage.locks.claim_protocol import STALE_AFTER_MS
    from tiersnap.remote_storage.retire.orphans_find import OrphansOutcome, find_orphans, remove
    from tiersnap.remote_storage.stores.open_store import open_existing_store
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.selection import matches_topic

    if older_than is None or older_than < STALE_AFTER_MS:
        raise UsageError(
            f"--older-than {format_duration(older_than)}: too short: a working copy attempt may be older",
            hint=f"give at least {format_duration(STALE_AFTER_MS)}",
        )
    store = open_existing_store(remote, stores, writes=apply)
    known = ClusterRecords(cluster)
    found = list(find_orphans(store, known, lambda name: matches_topic(name, topic), older_than=older_than))
    removed = list(remove(store, found)) if apply else []
    done = OrphansOutcome(found, removed)
    _show_orphans(output, found, done, older_than)
    if not done.wanted:
        output.talk("nothing to remove")
    else:
        tell_old_versions(output, store)
        if not apply:
            output.talk("nothing was removed; to remove the orphans, add --apply")
    if sinks.is_any:
        from tiersnap.snapshot.metrics.of_run import of_orphans

        left = [(str(each.kind), each.size_bytes) for each in done.left]
        sinks.send(lambda: of_orphans([str(kind) for kind in OrphanKind], left))
    return exit_code_of(done.errors())


def _show_orphans(output: Output, found: Sequence[Orphan], done: OrphansOutcome, older_than: int) -> None:
    """Print the orphans, their totals, the refused orphans, the failed deletions and the number of young objects."""
    actions = Counter(str(each.action) for each in found)
    younger = sum(len(each.keys) for each in done.waiting)
    last = max((each.removable_at for each in done.waiting), default=None)
    removed = sum(not failures for _, failures in done.done)
    size = sum(each.size_bytes for each in done.wanted)
    summary = OrphansSummary(dict(actions), removed, size, younger, last)
    output.rows(Orphan, found, columns=_ORPHAN_COLUMNS, summary=summary, errors=list(done.errors()))
    for orphan in done.refused:
        output.warn(f"refused: {orphan.partition}: {orphan.reason}")
    for each in done.failures:
        output.warn(f"not removed: {each.key}: {each.reason}")
    if last is not None:
        are = count_of(younger, "object is", "objects are")
        output.talk(
            f"{are} not removed, because they are younger than {format_duration(older_than)}; they may be removed "
            f"from {utc(last)} on"
        )


@click.group(cls=Group)
def maintain() -> None:
    """Remove unneeded objects and rows. Without --apply each command only prints a plan."""


maintain.add_command(maintain_tables)
maintain.add_command(remove_orphans)
