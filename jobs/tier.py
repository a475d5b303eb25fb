"""`tiersnap tier`: one host's READY segments into remote storage; no Spark, no tables."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from tiersnap.jobs.command_line.output import Output
from tiersnap.jobs.command_line.progress import Progress
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.host import HostRequest, host_options
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.pipeline.topic_ids import unknown_topics
from tiersnap.jobs.reporting.host_run import host_run
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.jobs.tell.page import leave
from tiersnap.jobs.tell.tier import show
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.stores.conditions import check_conditions
from tiersnap.remote_storage.upload.host_outcome import HostOutcome
from tiersnap.snapshot.log.log_dir import open_log_dir
from tiersnap.snapshot.log.places import place_of
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, count, selected
from tiersnap.snapshot.report import summarise


@click.command()
@click.argument("source", envvar="TIERSNAP_SOURCE")
@host_options
@click.option(
    "--all", "every_boundary", is_flag=True, help="Write a snapshot for every boundary, not the missing only."
)
@click.option("--report", type=LocalPath(file_okay=False), help="Also write the readiness page here.")
@metrics_options
@params.output_option
@click.pass_obj
def tier(
    output: Output, source: str, request: HostRequest, every_boundary: bool, report: Path | None, sinks: Sinks
) -> int:
    """Tier the segments of SOURCE that may be tiered, writing the snapshots they lack.

    SOURCE is one entry of a broker's log.dirs. One process, no Spark and no tables: what remote storage holds is its
    memory, and a claim there keeps two hosts from copying one segment. Brokers see the segments once `tiersnap publish`
    has told them.
    """
    started, uri = time.time_ns() // 1_000_000, place_of(source)
    host = replace(request.host, options=replace(request.host.options, every_boundary=every_boundary))
    if host.apply:
        # A bucket that is not there or refuses is better known before the work than after it.
        check_conditions(host.store, ObjectKeys())
    log_dir = open_log_dir(source)
    progress = Progress(output, "tiering", count([NamedLogDir(uri, log_dir)], Selection(request.topic)))
    found = progress.watch_one(selected(log_dir, source, request.topic))
    done = HostOutcome(tuple(host.partitions(log_dir, uri, found)))
    info = host_run(request.run_id, started, [uri], source=source, remote=request.remote, applied=host.apply)
    info = replace(info, counts=done.counts)
    code = done.exit_code(apply=host.apply)
    if report is not None or sinks.is_any:
        leave(summarise(list(done.readiness()), info), code, report, sinks, errors=len(done.errors))
    show(output, done, info, report, log_dir.findings)
    for topic in unknown_topics(host.topic_ids, {each.partition.topic for each in done.partitions}, request.topic):
        output.warn(f"--topic-ids: no partition of the topic {topic} in {source}")
    return code
