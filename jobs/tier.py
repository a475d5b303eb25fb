"""`tiersnap tier`: one host's READY segments into remote storage; no Spark, no tables."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import pyarrow as pa

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.remote import layout_option, s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.settings import new_run_id
from tiersnap.jobs.pipeline.topic_ids import read_topic_ids
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.upload.tier_partition import Tierer
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.log.log_dir import located, open_log_dir
from tiersnap.snapshot.log.selection import selected
from tiersnap.snapshot.report import RunInfo, summarise, write_report
from tiersnap.snapshot.tables.schemas import READINESS
from tiersnap.snapshot.tasks.carry_partition import CarryOptions
from tiersnap.snapshot.units import human_bytes

MOST_TOLD = 20
_REFUSALS = (Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT)


@click.command()
@click.argument("source", envvar="TIERSNAP_SOURCE")
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@layout_option
@params.expiration_option
@params.as_of_option
@params.producer_expiration_option
@params.now_option
@click.option("--replace", is_flag=True, help="Tier with computed snapshots where the broker's are CORRUPT or SUSPECT.")
@click.option("--topic-ids", type=click.Path(dir_okay=False, path_type=Path), help="Lines `topic id` for old topics.")
@params.topic_option
@params.crc_option
@s3_options
@click.option("--report", type=click.Path(file_okay=False, path_type=Path), help="Also write the readiness page here.")
@click.option("--apply", is_flag=True, help="Write to remote storage; without it the plan is shown.")
@params.output_option
@click.pass_obj
def tier(
    output: Output,
    source: str,
    remote: str,
    layout: Layout,
    expiration: int | None,
    as_of: int | None,
    producer_expiration: int | None,
    now: int,
    replace: bool,
    topic_ids: Path | None,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    s3: S3Settings,
    report: Path | None,
    apply: bool,
) -> int:
    """Tier the segments of SOURCE that may be tiered, writing the snapshots they lack.

    SOURCE is one entry of a broker's log.dirs. One process, no Spark and no tables: what remote storage holds is its
    memory, and a claim there keeps two hosts from copying one segment. Brokers see the segments once `tiersnap publish`
    has told them.
    """
    params.expiry(expiration, as_of, now, producer_expiration)
    run_id, started = new_run_id(), time.time_ns() // 1_000_000
    store = open_store(remote, s3)
    if apply:
        # A bucket that is not there or refuses is better known before the work than after it.
        next(iter(store.list()), None)
    log_dir = open_log_dir(source)
    host = HostTier(
        store,
        layout,
        CarryOptions(expiration, as_of, producer_expiration, replace=replace),
        Tierer(run_id, now),
        topic_ids=read_topic_ids(topic_ids) if topic_ids else {},
        check_crc=check_crc,
        apply=apply,
    )
    done = list(host.partitions(log_dir, located(source), selected(log_dir, source, topic)))
    tiered = [row for each in done for row in each.tiered if row["state"] == "COPY_SEGMENT_FINISHED" and row["bytes"]]
    info = RunInfo(
        run_id=run_id,
        started_at=started,
        finished_at=time.time_ns() // 1_000_000,
        source=source,
        remote=remote,
        warehouse="",
        version=__version__,
        applied=apply,
        snapshots_written=sum(each.snapshots_written for each in done),
        segments_tiered=len(tiered),
        bytes_tiered=sum(row["bytes"] for row in tiered),
    )
    if report is not None:
        rows = [pa.RecordBatch.from_pylist(each.readiness, schema=READINESS) for each in done if each.readiness]
        write_report(summarise(rows, info), report)
    _tell(output, done, info, report, [str(finding) for finding in log_dir.findings])
    return _exit_code(done, apply=apply)


def _tell(
    output: Output, done: Sequence[HostPartition], info: RunInfo, report: Path | None, of_log_dir: list[str]
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
        "snapshots_written": info.snapshots_written,
        "segments_tiered": info.segments_tiered,
        "bytes_tiered": human_bytes(info.bytes_tiered),
        **({} if report is None else {"report": str(report / "index.html")}),
    }
    output.rows("tier", rows, columns=("partition", "segments", "tiered", "verdicts", "findings"), summary=summary)
    findings = of_log_dir + [
        f"{row['finding_kind']}: {row['path']}: {row['message']}" for each in done for row in each.findings
    ]
    failed = [f"failed: {message}" for each in done for message, _ in each.errors]
    for lines in (findings, failed):
        for line in lines[:MOST_TOLD]:
            output.warn(line)
        if len(lines) > MOST_TOLD:
            output.warn(f"… and {len(lines) - MOST_TOLD} more")
    if not info.applied:
        output.talk("nothing was written to remote storage: give --apply")
    elif not info.segments_tiered and not info.snapshots_written:
        output.talk("nothing to do: no object was written")


def _exit_code(done: Sequence[HostPartition], *, apply: bool) -> ExitCode:
    errors = [error for each in done for error in each.errors]
    if errors:
        return ExitCode.TRANSIENT if all(is_transient for _, is_transient in errors) else ExitCode.PARTIAL
    verdicts = Counter(row["verdict"] for each in done for row in each.readiness)
    if verdicts[Verdict.CORRUPT_SEGMENT]:
        return ExitCode.DATA_CORRUPT
    return ExitCode.GATE_REFUSED if apply and any(verdicts[each] for each in _REFUSALS) else ExitCode.OK
