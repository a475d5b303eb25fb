"""`tiersnap simulate`: what producers would meet if a replica with a given snapshot became leader now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
from pyarrow import fs

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.place import warehouse_of, warehouse_option
from tiersnap.jobs.options.release import BrokerRelease, ClientRelease
from tiersnap.jobs.options.spark import spark_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.simulate_fleet import kept_origin, simulate_fleet
from tiersnap.snapshot.errors import ExitCode, SourceNotFoundError, UsageError
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.log.selection import Selection, selected
from tiersnap.snapshot.models.broker_eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.models.client_eras import CLIENT_ERAS, ClientEra
from tiersnap.snapshot.simulate.outcomes import differing_writes, outcomes
from tiersnap.snapshot.simulate.replica import (
    Origin,
    Replicas,
    SnapshotFiles,
    Start,
    files_of_partition,
    files_of_replica,
    replicas,
    start_of,
)
from tiersnap.snapshot.simulate.summary import Tally
from tiersnap.snapshot.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.tasks.simulate_partition import SimulatePartition

_ORIGINS = tuple(str(origin) for origin in Origin if origin is not Origin.ANOTHER)


@click.command()
@click.argument("logdir", required=False, envvar="TIERSNAP_SOURCE")
@warehouse_option
@click.option(
    "--from",
    "start_from",
    metavar=f"{'|'.join(_ORIGINS)}|DIR",
    help="The replica's snapshot: the newest beside the log that a broker loads, the one before, ours, an empty one, "
    "or the newest in DIR/<topic>-<partition>/; of a warehouse ours or empty.  [default: broker; of a warehouse ours]",
)
@click.option(
    "--at",
    type=click.IntRange(min=0),
    help="Offset of the snapshot, or the highest one for files.  [default: the newest segment's base offset for ours "
    "and empty]",
)
@click.option("--broker", type=BrokerRelease(), help="Brokers of this release alone, as 3.9.  [default: all]")
@click.option("--client", type=ClientRelease(), help="Java clients of this release alone.  [default: all]")
@click.option(
    "--transaction-version",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Protocol of transactions on brokers that speak version 2 (KIP-890).",
)
@click.option("--all", "everything", is_flag=True, help="Also rows in which the replica answers as the leader does.")
@click.option(
    "--producers", is_flag=True, help="A row a producer and write instead, for the newest brokers or --broker."
)
@params.topic_option
@params.crc_option
@params.expiration_option
@params.producer_expiration_option
@params.now_option
@spark_options
@params.output_option
@click.pass_context
def simulate(
    ctx: click.Context,
    logdir: str | None,
    warehouse: str | None,
    start_from: str | None,
    at: int | None,
    broker: BrokerEra | None,
    client: ClientEra | None,
    transaction_version: int,
    everything: bool,
    producers: bool,
    topic: re.Pattern[str] | None,
    check_crc: bool,
    expiration: int | None,
    producer_expiration: int | None,
    now: int,
    master: str | None,
    conf: dict[str, str],
) -> int:
    """Say what every producer of LOGDIR would meet if a replica with another snapshot became leader now.

    The replica has the snapshot that --from names and replayed the log from there. Each producer sends its next batch,
    its last ones again, one after a gap, as a fenced instance, and from sequence 0; a row says what the leader answers
    that never stopped, what the replica answers, and what the client makes of it, by release. Only answers that differ
    are listed, unless --all is given. Nothing is written.

    With --warehouse the answers are counted over all partitions that a run has read, on Spark; each replica begins at
    its newest segment's base offset.
    """
    output: Output = ctx.obj
    expiry = params.expiry(expiration, None, now, producer_expiration)
    brokers = BROKER_ERAS if broker is None else (broker,)
    clients = CLIENT_ERAS if client is None else (client,)
    uri = warehouse_of(ctx, "logdir", (logdir,) if logdir else (), warehouse)
    if uri is not None:
        if at is not None or producers:
            raise UsageError("--at and --producers need a LOGDIR", hint="the tables keep one state a partition")
        task = SimulatePartition(
            kept_origin(start_from), expiry, producer_expiration, brokers, clients, transaction_version
        )
        return simulate_fleet(output, master, conf, uri, Selection(topic), task, everything=everything)
    assert logdir is not None
    origin, folder = _origin_of(start_from or str(Origin.BROKER))
    log_dir = open_log_dir(logdir)
    tally = Tally(brokers[-1])
    findings: list[Finding] = [*log_dir.findings]
    said: list[str] = []
    summary: dict[str, object] = {"summary": ""}

    def rows() -> Iterator[dict[str, object]]:
        for partition in selected(log_dir, logdir, topic):
            choose = partial(_start, partition, origin, _files(log_dir.filesystem, partition, folder), at)
            found = replicas(
                log_dir.filesystem,
                partition,
                choose,
                expiry,
                producer_expiration=producer_expiration,
                check_crc=check_crc,
            )
            findings.extend(found.findings)
            said.extend(_said(found))
            given = Circumstances(partition.log_start_offset, transaction_version)
            classes = list(what_if(found.leader, found.replica, brokers, given))
            tally.add(classes)
            about = {"partition": partition.name, "from": str(found.start.origin), "at": found.start.offset}
            if producers:
                yield from (about | row for row in differing_writes(classes, found.leader, brokers[-1]))
                continue
            listed = outcomes(classes, found.leader.entries["producer_id"].tolist(), brokers, clients, given)
            yield from (about | outcome.as_row() for outcome in listed if everything or outcome.differs)
        summary["summary"] = tally.sentence()  # known when all partitions are read

    of_write = ("partition", "producer_id", "write", "known", "leader_answer", "replica_answer", "doubles")
    of_class = (
        "partition",
        "at",
        "write",
        "writes",
        "brokers",
        "leader_answer",
        "replica_answer",
        "clients",
        "reaction",
    )
    columns = of_write if producers else of_class
    output.rows("simulate", rows(), columns=columns, findings=findings, summary=summary)
    for message in said:
        output.talk(message)
    if any(finding.kind is not FindingKind.PERMISSION_DENIED for finding in findings):
        return ExitCode.DATA_CORRUPT
    return ExitCode.PARTIAL if findings else ExitCode.OK


def _origin_of(start_from: str) -> tuple[Origin, Path | None]:
    if start_from in _ORIGINS:
        return Origin(start_from), None
    folder = Path(start_from)
    if not folder.is_dir():
        raise SourceNotFoundError(
            f"{start_from}: no such directory",
            hint=f"--from takes {', '.join(_ORIGINS)} or another replica's directory",
        )
    return Origin.ANOTHER, folder


def _files(filesystem: fs.FileSystem, partition: Partition, folder: Path | None) -> SnapshotFiles:
    if folder is None:
        return files_of_partition(filesystem, partition)
    return files_of_replica(folder / partition.name)


def _start(partition: Partition, origin: Origin, files: SnapshotFiles, at: int | None, highest: int | None) -> Start:
    limits = [limit for limit in (at, highest) if limit is not None]
    return start_of(partition, origin, files, min(limits, default=None))


def _said(found: Replicas) -> Iterator[str]:
    name = found.partition.name
    for message in found.start.passed_over:
        yield f"{name}: a broker passes over {message}"
    if not found.is_whole:
        yield f"{name}: not simulated, the log cannot be replayed to its end"
    if found.expired:
        yield f"{name}: {found.expired} producers are left out, every broker has dropped them by now"
