"""`tiersnap tier`: one host's READY segments into remote storage; no Spark, no tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.copy_tasks import ToldBy, tiering_cluster_options
from tiersnap.jobs.old_options.host import HostRequest, host_options
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument
from tiersnap.jobs.old_options.paths import LocalPath
from tiersnap.jobs.old_options.remote import layout_name_option
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.topic_ids import unknown_topics
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.reporting.host_run import host_run
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.jobs.tell.page import leave
from tiersnap.jobs.tell.tier import show
from tiersnap.remote_storage.upload.host_outcome import HostOutcome
from tiersnap.snapshot.log.disk_findings import findings_of, refuse_twice
from tiersnap.snapshot.log.places import places_of
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of
from tiersnap.snapshot.report import summarise


@click.command()
@log_dirs_argument("LOGDIR")
@host_options(layout_name_option)
@tiering_cluster_options
@click.option(
    "--all", "every_boundary", is_flag=True, help="Write a snapshot for every boundary, not the missing only."
)
@click.option("--report", type=LocalPath(file_okay=False), help="Also write the readiness page here.")
@metrics_options
@params.output_option
@click.pass_obj
def tier(
    output: Output,
    log_dirs: tuple[str, ...],
    request: HostRequest,
    told_by: ToldBy,
    every_boundary: bool,
    report: Path | None,
    sinks: Sinks,
) -> int:
    """Tier the segments of LOGDIR that may be tiered, writing the snapshots they lack.

    LOGDIR are all entries of a broker's log.dirs, with blanks or commas between them, or as a glob. One process, no
    Spark and no tables: what remote storage holds is its memory, and a claim there keeps two hosts from copying one
    segment. Brokers see the segments once `tiersnap publish` has told them.
    """
    host = request.host(every_boundary=every_boundary)
    opened, selection = open_log_dirs(log_dirs), Selection(request.topic)
    refuse_twice(opened)
    swept = host.prepare_store(request.topic)
    host = host.told(told_by.about(opened, request.topic, output), told_by.left_for)
    progress = Progress(output, "tiering", count(opened, selection))
    tiered = tuple(host.partitions(progress.watch(selected_of(opened, selection))))
    done, places = HostOutcome(tiered, tuple(findings_of(opened))), places_of(log_dirs)
    info = host_run(request.run_id, places, now=host.tierer.now, remote=request.remote, applied=host.apply)
    info = replace(info, source=", ".join(log_dirs), counts=done.counts)
    code = done.exit_code(apply=host.apply)
    if report is not None or sinks.is_any:
        leave(summarise(list(done.readiness()), info), code, report, sinks, errors=len(done.errors))
    unknown = unknown_topics(host.topic_ids, {each.partition.topic for each in done.partitions}, request.topic)
    show(output, done, info, report, opened, swept, unknown)
    return code
