"""`tiersnap tier`: one host's READY segments into remote storage; no Spark, no tables."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import pyarrow as pa

from tiersnap.jobs.disks import disks_below
from tiersnap.jobs.kept_options import kept_options
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.host import HostRequest, host_options
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.topic_ids import unknown_topics
from tiersnap.jobs.refused import exit_code_of, next_steps
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.stores.conditions import check_conditions
from tiersnap.remote_storage.upload.tier_host import HostPartition
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import ExitCode, TiersnapError, failure
from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import located, open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.metrics.of_run import of_run
from tiersnap.snapshot.report.run_info import RunCounts, RunInfo
from tiersnap.snapshot.tables.schemas import READINESS

MOST_TOLD = 20


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
    started, options = time.time_ns() // 1_000_000, request.host.options
    host = replace(request.host, options=replace(options, every_boundary=every_boundary))
    if host.apply:
        # A bucket that is not there or refuses is better known before the work than after it.
        check_conditions(host.store, ObjectKeys())
    log_dir = open_log_dir(source)
    done = list(host.partitions(log_dir, located(source), selected(log_dir, source, request.topic)))
    tiered = [row for each in done for row in each.tiered if row["state"] == "COPY_SEGMENT_FINISHED" and row["bytes"]]
    info = RunInfo(
        run_id=request.run_id,
        started_at=started,
        finished_at=time.time_ns() // 1_000_000,
        source=source,
        remote=request.remote,
        warehouse="",
        version=__version__,
        applied=host.apply,
        counts=RunCounts(
            snapshots_written=sum(each.snapshots_written for each in done),
            segments_tiered=len(tiered),
            bytes_tiered=sum(row["bytes"] for row in tiered),
        ),
        disks=disks_below([located(source)]),
        options=kept_options(click.get_current_context()),
    )
    code = exit_code(done, apply=host.apply)
    if report is not None or sinks.is_any:
        from tiersnap.snapshot.report import summarise, write_report

        rows = [pa.RecordBatch.from_pylist(each.readiness, schema=READINESS) for each in done if each.readiness]
        made = summarise(rows, info)
        if report is not None:
            write_report(made, report)
        errors = sum(len(each.errors) for each in done)
        sinks.send(lambda: of_run(made, code, errors=errors, by_partition=sinks.by_partition))
    _tell(output, done, info, report, log_dir.findings)
    for topic in unknown_topics(host.topic_ids, {each.partition.topic for each in done}, request.topic):
        output.warn(f"--topic-ids: no partition of the topic {topic} in {source}")
    return code


def _tell(
    output: Output, done: Sequence[HostPartition], info: RunInfo, report: Path | None, of_log_dir: Sequence[Finding]
) -> None:
    rows = [
        {
            "partition": each.partition.name,
            "segments": len(each.readiness),
            "tiered": sum(row["state"] == "COPY_SEGMENT_FINISHED" for row in each.tiered),
            "verdicts": dict(Counter(row["verdict"] for row in each.readiness).most_common()),
            "findings": len(each.findings),
        }
        for each in done
    ]
    summary = {
        "run_id": info.run_id,
        "snapshots_written": info.counts.snapshots_written,
        "segments_tiered": info.counts.segments_tiered,
        "bytes_tiered": info.counts.bytes_tiered,
        **({} if report is None else {"report": str(report / "index.html")}),
    }
    columns = ("partition", "segments", "tiered", "verdicts", "findings")
    findings, errors = [*of_log_dir, *findings_of(done)], errors_of(done)
    output.rows("tier", rows, columns=columns, summary=summary, findings=findings, errors=errors)
    tell_failures(output, done)
    for line in next_steps(_verdicts(done)):
        output.talk(line)
    if not info.applied:
        output.talk("nothing was written to remote storage: give --apply")
    elif not info.counts.segments_tiered and not info.counts.snapshots_written:
        output.talk("no object was written" if errors else "nothing to do: no object was written")


def findings_of(done: Sequence[HostPartition]) -> list[Finding]:
    """What is damaged."""
    return [
        Finding(FindingKind(row["finding_kind"]), row["path"], row["position"], row["message"])
        for each in done
        for row in each.findings
    ]


def errors_of(done: Sequence[HostPartition]) -> list[TiersnapError]:
    """What failed."""
    return [failure(message, is_transient=is_transient) for each in done for message, is_transient in each.errors]


def tell_failures(output: Output, done: Sequence[HostPartition]) -> None:
    """Say what failed."""
    failed = [f"failed: {message}" for each in done for message, _ in each.errors]
    for line in failed[:MOST_TOLD]:
        output.warn(line)
    if len(failed) > MOST_TOLD:
        output.warn(f"… and {len(failed) - MOST_TOLD} more")


def exit_code(done: Sequence[HostPartition], *, apply: bool) -> ExitCode:
    """What could not be written, what is damaged, what the gate refused although it was asked to tier; else OK."""
    errors = [error for each in done for error in each.errors]
    if errors:
        return ExitCode.TRANSIENT if all(is_transient for _, is_transient in errors) else ExitCode.PARTIAL
    return exit_code_of(_verdicts(done), apply=apply)


def _verdicts(done: Sequence[HostPartition]) -> dict[Verdict, int]:
    return Counter(Verdict(row["verdict"]) for each in done for row in each.readiness)
