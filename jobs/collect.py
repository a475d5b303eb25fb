"""`tiersnap collect`: the decodes of one host's log directory, shipped to where a fleet's run reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.remote_storage.collect.collect import Collected, Collection
from tiersnap.remote_storage.collect.folder import CollectedFolder
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.stores.conditions import check_conditions
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, TiersnapError, TransientError
from tiersnap.snapshot.log.log_dir import located, open_log_dir
from tiersnap.snapshot.log.selection import selected_folders
from tiersnap.snapshot.tasks.sources import read_properties
from tiersnap.snapshot.units import human_bytes

_COLUMNS = ("partition", "segments", "to_decode", "to_read", "snapshots", "gone", "error")


@click.command()
@click.argument("source", metavar="LOGDIR", envvar="TIERSNAP_SOURCE")
@click.option("--to", required=True, help="Folder of shared storage, one for each log directory: s3://… or a path.")
@click.option("--headers", is_flag=True, help="Ship the headers of all batches, too: for analysis.")
@params.topic_option
@params.now_option
@s3_options
@click.option("--apply", is_flag=True, help="Decode and ship; without it the plan is shown.")
@params.output_option
@click.pass_obj
def collect(
    output: Output,
    source: str,
    to: str,
    headers: bool,
    topic: re.Pattern[str] | None,
    now: int,
    s3: S3Settings,
    apply: bool,
) -> int:
    """Decode LOGDIR on its own host and ship what a fleet's run needs of it, as Parquet; no Java, no Spark.

    LOGDIR is one entry of a broker's log.dirs. `tiersnap run --source TO` takes what was shipped as it takes a log
    directory; the upload needs the segments and stays with this host. Run it again whenever you like: only what is new
    or has changed is read, with the CRC of every batch, and what is gone is no longer listed. Reading is safe while the
    broker runs.
    """
    store, log_dir = open_store(to, s3), open_log_dir(source)
    if apply:
        check_conditions(store, ObjectKeys())
    properties = read_properties(log_dir.filesystem, log_dir.path)
    collection = Collection(CollectedFolder(store), located(source), log_dir, properties, headers, now, apply)
    totals = _Totals()
    rows = [totals.add(each) for each in collection.partitions(selected_folders(log_dir, source, topic))]
    summary = totals.summary(apply)
    output.rows("collect", rows, columns=_COLUMNS, summary=summary, findings=log_dir.findings, errors=totals.errors)
    if not apply:
        output.talk("nothing was shipped: give --apply")
    elif not totals.changed:
        output.talk("nothing to do: what was shipped is what is there")
    return totals.exit_code


@dataclass
class _Totals:
    """What was collected, partition after partition; a plan with its rows is let go of when it is counted."""

    changed: int = 0
    segments: int = 0
    bytes: int = 0
    snapshots: int = 0
    errors: list[TiersnapError] = field(default_factory=list)

    def add(self, done: Collected) -> dict[str, object]:
        """Count a partition; its row."""
        plan, error = done.plan, done.error
        if error is not None:
            self.errors.append(error)
        elif plan is not None:
            self.changed += plan.is_changed
            self.segments += len(plan.segments)
            self.bytes += plan.bytes_to_read
            self.snapshots += len(plan.snapshot_files)
        return {
            "partition": done.folder,
            "segments": None if plan is None else len(plan.partition.segments),
            "to_decode": None if plan is None else len(plan.segments),
            "bytes_to_read": None if plan is None else plan.bytes_to_read,
            "to_read": None if plan is None else human_bytes(plan.bytes_to_read),
            "snapshots": None if plan is None else len(plan.snapshot_files),
            "gone": None if plan is None else len(plan.gone),
            "error": None if error is None else error.message,
        }

    def summary(self, applied: bool) -> dict[str, object]:
        """The counts by name."""
        names = ("segments_decoded", "bytes_read", "snapshots_shipped")
        planned = ("segments_to_decode", "bytes_to_read", "snapshots_to_ship")
        values = (self.segments, self.bytes, self.snapshots)
        return dict(zip(names if applied else planned, values, strict=True))

    @property
    def exit_code(self) -> ExitCode:
        """OK, or that some partitions stay as they were."""
        if not self.errors:
            return ExitCode.OK
        is_transient = all(isinstance(error, TransientError) for error in self.errors)
        return ExitCode.TRANSIENT if is_transient else ExitCode.PARTIAL
