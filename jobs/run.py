"""`tiersnap run`: the main job."""

from __future__ import annotations

import os
import re
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import click

from jobs import params
from jobs.engine import Engine, LocalEngine
from jobs.output import Output, human_bytes
from jobs.pipeline.run import Outcome, run_stages
from jobs.pipeline.settings import RunSettings
from jobs.pipeline.topic_ids import read_topic_ids
from jobs.readiness_report.run_info import RunInfo
from jobs.readiness_report.summary import summarise
from jobs.readiness_report.write import write_report
from jobs.remote_params import layout_option, s3_options
from remote_storage.layout import Layout
from remote_storage.s3_settings import S3Settings
from remote_storage.stores import open_store
from snapshot import __version__
from snapshot.errors import ExitCode
from snapshot.readiness import Verdict
from snapshot.stages.carry_partitions import CarryOptions


@click.command()
@click.option("--source", "sources", multiple=True, required=True, help="A log directory: path, file:, s3: or hdfs:.")
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@click.option("--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables.")
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    default="tiersnap-report",
    show_default=True,
    help="Folder of the readiness report.",
)
@layout_option
@click.option("--engine", type=click.Choice(["spark", "local"]), default="spark", show_default=True)
@click.option("--master", default="local[*]", show_default=True, help="Spark master; a spark-submit's own wins.")
@click.option(
    "--spark-conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting, over conf/spark-defaults.conf."
)
@params.expiration_option
@params.as_of_option
@params.producer_expiration_option
@click.option(
    "--all", "every_boundary", is_flag=True, help="Write a snapshot for every boundary, not the missing only."
)
@click.option("--replace", is_flag=True, help="Tier with computed snapshots where the broker's are CORRUPT or SUSPECT.")
@click.option("--topic-ids", type=click.Path(dir_okay=False, path_type=Path), help="Lines `topic id` for old topics.")
@params.topic_option
@params.crc_option
@click.option(
    "--keep",
    type=click.Choice(["headers", "deltas"]),
    default="headers",
    show_default=True,
    help="What the decode stores: every batch header, or only what the fold needs.",
)
@s3_options
@click.option("--apply", is_flag=True, help="Write to remote storage; without it the run says what it would do.")
@params.output_option
@click.pass_obj
def run(
    output: Output,
    sources: tuple[str, ...],
    remote: str,
    warehouse: str,
    report: Path,
    layout: Layout,
    engine: str,
    master: str,
    spark_conf: tuple[str, ...],
    expiration: int | None,
    as_of: int,
    producer_expiration: int | None,
    every_boundary: bool,
    replace: bool,
    topic_ids: Path | None,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    keep: str,
    s3: S3Settings,
    apply: bool,
) -> int:
    """Decode, snapshot, tier and report.

    Leaves the missing producer snapshots and every segment that may be tiered in remote storage, and a report that
    says why the rest may not. Run again, it does nothing twice: only what is new or changed is read.
    """
    started = time.time()
    settings = RunSettings(
        sources=sources,
        warehouse=warehouse,
        run_id=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ-") + uuid.uuid4().hex[:6],
        now=int(started * 1000),
        carry=CarryOptions(expiration, as_of, producer_expiration, every_boundary, replace),
        remote=remote,
        topic=topic,
        topic_ids=read_topic_ids(topic_ids) if topic_ids else {},
        check_crc=check_crc,
        keep_headers=keep == "headers",
        apply=apply,
    )
    store = open_store(remote, s3)
    outcome = run_stages(
        make_engine(engine, master, spark_conf), settings, store=store, layout=layout, talk=output.talk
    )
    info = _run_info(settings, outcome, started)
    write_report(summarise(outcome.readiness, info), report)
    _tell(output, outcome, settings, report)
    return _exit_code(outcome)


def make_engine(engine: str, master: str, spark_conf: tuple[str, ...]) -> Engine:
    """The engine of --engine."""
    if engine == "local":
        return LocalEngine(os.cpu_count() or 1)
    from jobs.session import spark_engine

    return spark_engine(master, spark_conf)


def _run_info(settings: RunSettings, outcome: Outcome, started: float) -> RunInfo:
    return RunInfo(
        run_id=settings.run_id,
        started_at=int(started * 1000),
        finished_at=int(time.time() * 1000),
        source=", ".join(settings.sources),
        remote=settings.remote or "",
        warehouse=settings.warehouse,
        version=__version__,
        applied=settings.apply,
        segments_decoded=outcome.decoded.count,
        bytes_decoded=outcome.decoded.bytes,
        snapshots_written=outcome.carried.written,
        segments_tiered=outcome.tiered.segments,
        bytes_tiered=outcome.tiered.bytes,
        delta_commits=outcome.commits,
    )


def _tell(output: Output, outcome: Outcome, settings: RunSettings, report: Path) -> None:
    counts = {str(verdict): outcome.count(verdict) for verdict in Verdict if outcome.count(verdict)}
    rows = [{"verdict": verdict, "segments": count} for verdict, count in counts.items()]
    output.rows(
        "run",
        rows,
        columns=("verdict", "segments"),
        summary={
            "run_id": settings.run_id,
            "segments_decoded": outcome.decoded.count,
            "snapshots_written": outcome.carried.written,
            "segments_tiered": outcome.tiered.segments,
            "bytes_tiered": human_bytes(outcome.tiered.bytes),
            "delta_commits": outcome.commits,
            "seconds": {name: round(value, 2) for name, value in outcome.seconds.items()},
            "report": str(report / "index.html"),
        },
    )
    for finding in outcome.carried.findings[:20]:
        output.talk(f"{finding['kind']}: {finding['path']}: {finding['message']}")
    if len(outcome.carried.findings) > 20:
        output.talk(f"… and {len(outcome.carried.findings) - 20} findings more: see the report")
    for error in outcome.errors[:20]:
        output.talk(f"failed: {error}")
    if not settings.apply:
        output.talk("nothing was written to remote storage: give --apply")
    elif outcome.did_nothing:
        output.talk("nothing to do: no object was written and no Delta version committed")


def _exit_code(outcome: Outcome) -> ExitCode:
    if outcome.errors:
        return ExitCode.TRANSIENT if outcome.tiered.is_transient and not outcome.carried.errors else ExitCode.PARTIAL
    return ExitCode.OK
