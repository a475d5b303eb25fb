"""`tiersnap simulate`: predict a broker's answers to producers if a replica with a given snapshot became leader."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import command_place
from tiersnap.jobs.cli.option_types import BROKER_RELEASE, CLIENT_RELEASE
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.sentences import of_unknown_beginnings, with_remote
from tiersnap.jobs.commands.simulate.risk import (
    RiskRequest,
    SimulateSummary,
    risk_options,
    show_risk_of_host,
    show_risk_of_warehouse,
)
from tiersnap.jobs.pipeline.spark_options import SparkRequest, spark_options
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.simulate.kinds import (
    FleetWrite,
    LostProducers,
    SimulatedProducer,
    SimulatedWrite,
    SnapshotOrigin,
)
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import BoundaryRow, PartitionRow
from tiersnap.snapshot.gate.next_steps import STATE_LOG_START
from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.gate.step_template import Hole
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.simulate import SimulatePartition
    from tiersnap.snapshot.exactly_once.models.eras import BrokerEra, ClientEra
    from tiersnap.snapshot.exactly_once.simulate.log_dir import HostSimulation
    from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings
    from tiersnap.snapshot.log.selection import NamedLogDir
    from tiersnap.snapshot.replay.replay_start import Beginnings

T = TypeVar("T")
_OF_RISK = {each.name for each in fields(RiskRequest)} - {"is_asked"}
_OF_ANSWERS = {"start_from", "at", "client", "transaction_version", "everything", "producers", "expiration", "remote"}


WRITE_COLUMNS = (
    *("partition", "at", "write", "writes", "brokers", "leader_answer", "replica_answer", "clients", "effect"),
)
PRODUCER_COLUMNS = ("partition", "producer_id", "write", "known", "leader_answer", "replica_answer", "doubles")


@dataclass(frozen=True)
class _Replica:
    log_dir: str
    partition: str


@dataclass(frozen=True)
class LostProducersOfReplica(LostProducers, _Replica):
    """The active producers that a replica lost (rows of `scan` and `doctor` with --remote)."""


FLEET_COLUMNS = ("write", "writes", "partitions", "brokers", "leader_answer", "replica_answer", "clients", "effect")


@dataclass(frozen=True, slots=True)
class _Answers:
    """The options of a simulation, without --risk; durations in ms."""

    start_from: str | None
    at: int | None
    broker: BrokerEra | None
    client: ClientEra | None
    transaction_version: int
    everything: bool
    producers: bool
    check_crc: bool
    expiration: int | None
    broker_expiry: opt.BrokerExpiry

    def of_host(self, beginnings: Beginnings) -> HostSimulation:
        """Return the simulation for log directories of this host.

        Raises:
            SourceNotFoundError: --from names a directory that does not exist.
            UsageError: --expiration and --producer-expiration conflict.
        """
        from tiersnap.snapshot.exactly_once.simulate.log_dir import HostSimulation
        from tiersnap.snapshot.exactly_once.simulate.replica import ReplicaSnapshot

        return HostSimulation(
            ReplicaSnapshot.of(self.start_from or "broker", self.at),
            self._settings,
            check_crc=self.check_crc,
            everything=self.everything,
            by_producer=self.producers,
            beginnings=beginnings,
        )

    def of_warehouse(self) -> SimulatePartition:
        """Return the simulation for a warehouse. Its tables have computed producer states, but no snapshot files.

        Raises:
            UsageError: an option needs snapshot files, or --expiration and --producer-expiration conflict.
        """
        from tiersnap.jobs.pipeline.simulate import SimulatePartition

        if self.at is not None or self.producers:
            raise UsageError(
                "--at and --producers need a LOGDIR",
                hint="the tables of --warehouse have only one producer state per partition",
            )
        kept = (str(SnapshotOrigin.OURS), str(SnapshotOrigin.EMPTY))
        start_from = self.start_from
        if start_from is None:
            start_from = kept[0]
        if start_from not in kept:
            raise UsageError(
                f"--from {start_from} needs a LOGDIR", hint=f"with --warehouse, give --from {' or '.join(kept)}"
            )
        return SimulatePartition(SnapshotOrigin(start_from), self._settings)

    @property
    def _settings(self) -> SimulationSettings:
        from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, CLIENT_ERAS
        from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings

        expiry = opt.expiry(self.expiration, None, self.broker_expiry)
        brokers = BROKER_ERAS if self.broker is None else (self.broker,)
        clients = CLIENT_ERAS if self.client is None else (self.client,)
        return SimulationSettings(expiry, self.broker_expiry.expiration, brokers, clients, self.transaction_version)


@command(*(SimulatedWrite, SimulatedProducer, FleetWrite, PartitionRow, BoundaryRow), summary=SimulateSummary)
@opt.log_dirs_argument(required=False)
@click.option(
    "--warehouse",
    metavar="URI",
    help="Simulate all partitions in this folder of Delta tables, on Spark, in place of LOGDIR.",
)
@opt.selection_options
@opt.as_one(
    "asked",
    _Answers,
    click.option(
        "--from",
        "start_from",
        metavar="broker|older|ours|empty|DIR",
        help="Snapshot from which the replica starts. broker: the newest file that a broker can load; older: the "
        "second newest file; ours: the snapshot that `tiersnap repair` would write; empty: no producers; DIR: "
        "the newest file in DIR/<topic>-<partition>/. With --warehouse only ours and empty.  [default: broker; "
        "ours with --warehouse]",
    ),
    click.option(
        "--at",
        type=click.IntRange(min=0),
        help="Offset of the snapshot. --from ours and --from empty use exactly this offset; other values of --from "
        "use the newest file up to this offset.  [default for ours and empty: the newest segment's base offset]",
    ),
    click.option(
        "--broker",
        type=BROKER_RELEASE,
        help="Simulate only brokers of this release, such as 3.9.  [default: the running broker's release, else all]",
    ),
    click.option("--client", type=CLIENT_RELEASE, help="Simulate only Java clients of this release.  [default: all]"),
    click.option(
        "--transaction-version",
        type=click.IntRange(1, 2),
        default=1,
        show_default=True,
        help="transaction.version of brokers that support transaction version 2 (KIP-890).",
    ),
    click.option(
        "--all",
        "everything",
        is_flag=True,
        help="Print all rows, also rows in which the replica answers as the leader does.",
    ),
    click.option(
        "--producers",
        is_flag=True,
        help="Print a row for each producer and each of its writes, for the newest broker release or the "
        "release of --broker.",
    ),
    opt.crc_option,
    opt.expiration_option,
    opt.broker_expiry_options,
)
@risk_options
@opt.remote_view_options(opt.OF_BEGINNINGS, click.option)
@opt.log_start_option
@spark_options
def simulate(
    output: Output,
    log_dirs: tuple[str, ...],
    warehouse: str | None,
    selection: opt.Selection,
    asked: _Answers,
    risk: RiskRequest,
    view: opt.RemoteView,
    log_starts: opt.LogStarts,
    spark: SparkRequest,
) -> int:
    """Predict the errors of every producer in LOGDIR if a replica with another snapshot became leader now.

    tiersnap simulate /var/lib/kafka/data --from empty
    tiersnap simulate /var/lib/kafka/data --risk

    The simulated replica loads the snapshot of --from, and replays the log from there. Each producer then sends its
    next batch, its last batches again, a batch after a gap, a batch as a fenced instance, and a batch from sequence 0.

    A row has three answers for each release: the answer of the present leader, the answer of the replica, and the
    client's answer to the application. Without --all only rows with differences are printed. No file is written. A log
    that begins in remote storage is simulated only with --remote.

    --risk estimates the cost of three alternatives that KIP-952 rejected. The first is an empty snapshot in place of
    each missing or wrong one. Its cost is the number of lost producers, the number of records that may be appended
    twice, and the duration of this risk. The second is to wait until retention has deleted the segments. Its cost is
    the time, and the bytes that stay untiered. The third is to archive no snapshots, and to replay the log for each
    snapshot that is needed. Its cost is bytes and time. Both are estimated for a replay of the whole log, of
    the expiration window that KIP-952 proposed, and from the nearest snapshot.

    With --warehouse the command simulates, on Spark, all partitions that a run has read. Each simulated replica begins
    with the producer state at the base offset of the newest segment.
    """
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.log.log_start import with_stated
    from tiersnap.snapshot.log.selection import open_log_dirs

    ctx = click.get_current_context()
    uri = warehouse_of(ctx, log_dirs, warehouse)
    _refuse_options_of_the_other(ctx, is_risk=risk.is_asked)
    if risk.is_asked:
        settings = risk.settings(asked.broker_expiry, asked.broker)
        if uri is not None:
            return show_risk_of_warehouse(output, spark, uri, selection, settings, risk)
        opened = with_stated(open_log_dirs(log_dirs), log_starts)
        return show_risk_of_host(output, opened, selection, settings, risk, check_crc=asked.check_crc)
    if uri is not None:
        task = asked.of_warehouse()
        from tiersnap.jobs.pipeline.simulate import simulate_warehouse

        found = simulate_warehouse(spark.session, uri, selection, task, everything=asked.everything)
        sentence = found.tally.sentence(task.settings.brokers[-1])
        output.rows(FleetWrite, found.rows, columns=FLEET_COLUMNS, summary=SimulateSummary(sentence))
        if output.format is Format.JSONL:
            output.talk(sentence)
        output.talk(*found.said)
        if found.unlocated:
            count = count_of(found.unlocated, "partition is", "partitions are")
            output.warn(
                f"{count} left out, because the log start is unknown; to state it: {_run_of(uri).text(STATE_LOG_START)}"
            )
        return exit_code_of([Verdict.UNKNOWN_LOG_START] if found.unlocated else [])
    opened = with_stated(open_log_dirs(log_dirs), log_starts)
    asked = replace(asked, broker=asked.broker or _running_broker(opened))
    simulation = asked.of_host(view.beginnings(asked.broker_expiry))
    return _simulate_host(output, opened, selection, simulation)


def _running_broker(opened: Sequence[NamedLogDir]) -> BrokerEra | None:
    """Return the BrokerEra of the broker that uses the log directories; None without a broker or a known release."""
    from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, era_of
    from tiersnap.snapshot.host.running_broker import lock_holder

    for each in opened:
        with suppress(OSError, ValueError):
            holder = lock_holder(Path(each.log_dir.path)) if each.log_dir.filesystem.is_local else None
            if holder is not None and holder.version is not None:
                return era_of(holder.version, BROKER_ERAS)
    return None


def _run_of(warehouse: str) -> Place:
    """Return the Place for next steps about a warehouse. Such steps use `tiersnap run` to upload segments."""
    return command_place(tier=("run", Hole.SOURCES, "--remote", Hole.REMOTE, "--warehouse", warehouse))


def warehouse_of(ctx: click.Context, log_dirs: Sequence[str], warehouse: str | None) -> str | None:
    """Return the URI of the warehouse, or None if the command is to read LOGDIR.

    LOGDIR and --warehouse may both be set, for example one in a settings file. Then --warehouse is used only if it is
    on the command line; otherwise LOGDIR is used.

    Raises:
        UsageError: the command line has both LOGDIR and --warehouse, or neither was given.
    """
    hint = "give either log directories of this host, or --warehouse for the tables of tiersnap run"
    is_typed = opt.is_typed(ctx, "warehouse")
    if is_typed and opt.is_typed(ctx, "log_dirs"):
        raise UsageError("LOGDIR and --warehouse both name an input: give only one", hint=hint)
    if not log_dirs and not warehouse:
        raise UsageError("neither LOGDIR nor --warehouse was given", hint=hint)
    if not warehouse:
        return None
    if log_dirs and not is_typed:
        return None
    from tiersnap.snapshot.log.places import located

    return located(warehouse)


def _refuse_options_of_the_other(ctx: click.Context, *, is_risk: bool) -> None:
    if is_risk:
        if option := _first_typed(ctx, _OF_ANSWERS):
            raise UsageError(f"{option} and --risk exclude each other", hint=f"leave out {option}")
    elif option := _first_typed(ctx, _OF_RISK):
        raise UsageError(f"{option} needs --risk", hint="add --risk")


def _first_typed(ctx: click.Context, names: Container[str]) -> str | None:
    """Return the first option on the command line whose parameter is in `names`; None without one."""
    for param in ctx.command.params:
        name = str(param.name)
        if name in names and opt.is_typed(ctx, name):
            return param.opts[0]
    return None


def _simulate_host(
    output: Output, opened: Sequence[NamedLogDir], selection: opt.Selection, simulation: HostSimulation
) -> int:
    """Simulate the partitions, and print the results as they come. Return the exit code."""
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.selection import count, findings_of, selected_of

    simulation.findings.extend(findings_of(opened))
    partitions = Progress(output, "simulating", count(opened, selection)).watch(selected_of(opened, selection))
    kind: type[Any]
    columns: Sequence[str]
    kind, columns = SimulatedWrite, WRITE_COLUMNS
    if simulation.by_producer:
        kind, columns = SimulatedProducer, PRODUCER_COLUMNS
    rows = simulation.answers(partitions)

    def summary() -> SimulateSummary:
        return SimulateSummary(simulation.sentence(), len(simulation.not_compared))

    several, findings = len(opened) > 1, simulation.findings
    output.rows(kind, rows, columns=columns, several=several, findings=findings, summary=summary)
    output.talk(*simulation.said)
    output.warn(*of_unknown_beginnings(simulation.beginnings))
    if simulation.not_compared and simulation.beginnings.find is None:
        output.talk(f"next: {with_remote()}")
    return exit_code_of([*simulation.findings, *simulation.beginnings.errors()])
