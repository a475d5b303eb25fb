"""`tiersnap collect`: decode the log directories of one host, and write Parquet files for `tiersnap run`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.snapshot.units import human_bytes

if TYPE_CHECKING:
    from tiersnap.remote_storage.collect.collect import Collected


@dataclass(frozen=True, slots=True)
class CollectedPartition:
    """A partition of `collect`. If the partition failed, the numbers are null."""

    COLUMNS: ClassVar = ("partition", "segments", "to_decode", "to_read", "snapshots", "gone", "error")
    log_dir: str
    partition: str
    segments: int | None = None
    to_decode: int | None = None
    bytes_to_read: int | None = None
    to_read: Annotated[str | None, Meta(description="`bytes_to_read` as text with a unit")] = None
    snapshots: int | None = None
    gone: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectSummary:
    """Totals of `collect`. A plan sets the fields with `to_` in their names; --apply sets the other fields."""

    segments_decoded: int | UnsetType = UNSET
    bytes_read: int | UnsetType = UNSET
    snapshots_shipped: int | UnsetType = UNSET
    segments_to_decode: int | UnsetType = UNSET
    bytes_to_read: int | UnsetType = UNSET
    snapshots_to_ship: int | UnsetType = UNSET


@command(CollectedPartition, summary=CollectSummary)
@opt.log_dirs_argument()
@click.option(
    "--to",
    required=True,
    help="Folder in shared storage: s3://… or a path. If there are several log directories, each gets a subfolder.",
)
@click.option("--headers", is_flag=True, help="Write the headers of all batches too, for analysis.")
@opt.topic_option
@opt.now_option
@opt.store_options
@opt.apply_option("Decode, and write the files; without --apply print the plan.")
def collect(
    output: Output,
    log_dirs: tuple[str, ...],
    to: str,
    headers: bool,
    topic: opt.TopicPattern,
    now: int,
    stores: opt.StoreSettings,
    apply: bool,
) -> int:
    """Decode LOGDIR on the broker's host, and write Parquet for `tiersnap run`. Needs no Java and no Spark.

    tiersnap collect /var/lib/kafka/data --to s3://lake/collected/broker-1
    tiersnap collect /var/lib/kafka/data --to s3://lake/collected/broker-1 --apply

    Give all entries of the broker's log.dirs as LOGDIR. `tiersnap run --source TO` reads the Parquet files in place of
    a log directory. To upload segments, run `tiersnap tier` on this host.

    The next call reads only new and changed segments, and verifies the CRC of every batch in them. After this
    call, `run` ignores the segments that the broker has deleted. Reading is safe while the broker runs.
    """
    from tiersnap.remote_storage.collect.collect import CollectTotals
    from tiersnap.remote_storage.collect.disks import DiskCollection, folders_below, refuse_folder_of_one
    from tiersnap.remote_storage.stores.open_store import open_store
    from tiersnap.remote_storage.stores.probe import check_conditions
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.selection import (
        Selection,
        count,
        findings_of,
        open_log_dirs,
        refuse_twice,
        selected_folders,
    )

    opened, selection = open_log_dirs(log_dirs), Selection(topic)
    refuse_twice(opened)
    if len(opened) > 1:
        refuse_folder_of_one(open_store(to, stores, writes=False))
    places = folders_below(to, opened)
    targets = [open_store(place, stores, writes=apply) for place in places]
    if apply:
        check_conditions(targets[0])
    selected, totals = selected_folders(opened, selection), CollectTotals(findings=[*findings_of(opened)])
    disks = [DiskCollection(*each) for each in zip(opened, targets, selected, strict=True)]
    is_new = any(disk.is_new for disk in disks)
    run = methodcaller("run", with_batches=headers, now=now, apply=apply)
    collected = chain.from_iterable(map(run, disks))
    progress = Progress(output, "collecting", count(opened, selection))

    def rows() -> Iterator[CollectedPartition]:
        for log_dir, each in progress.watch_done(collected):
            totals.add(each)
            yield _row(log_dir.uri, each)

    def summary() -> CollectSummary:
        segments, size, snapshots = totals.segments, totals.bytes, totals.snapshots
        if apply:
            return CollectSummary(segments_decoded=segments, bytes_read=size, snapshots_shipped=snapshots)
        return CollectSummary(segments_to_decode=segments, bytes_to_read=size, snapshots_to_ship=snapshots)

    several, findings = len(opened) > 1, totals.findings
    output.rows(CollectedPartition, rows(), several=several, summary=summary, findings=findings, errors=totals.errors)
    if not (totals.changed or totals.errors or is_new):
        output.talk("nothing to do: all files of the log directories are in shared storage")
    elif not apply:
        output.talk(f"nothing was written to shared storage; next: {again('--apply')}")
    if len(places) > 1:
        output.talk(f"next, on the Spark side: tiersnap run with the options {_sources(places)}")
    return exit_code_of(totals.problems())


def _sources(places: Iterable[str]) -> str:
    """Return the --source options of `run` for the written folders."""
    return " ".join(f"--source {shlex.quote(place)}" for place in places)


def _row(log_dir: str, done: Collected) -> CollectedPartition:
    plan, error = done.plan, None
    if done.error is not None:
        error = done.error.message
    if plan is None:
        return CollectedPartition(log_dir, done.folder, error=error)
    numbers = (len(plan.partition.segments), len(plan.segments), plan.bytes_to_read, human_bytes(plan.bytes_to_read))
    return CollectedPartition(log_dir, done.folder, *numbers, len(plan.snapshot_files), len(plan.gone), error)
