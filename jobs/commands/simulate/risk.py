"""`tiersnap simulate --risk`: estimate the cost of the alternatives that KIP-952 rejected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.option_types import DURATION
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.sentences import of_unlocated, tell_not_compared
from tiersnap.jobs.pipeline.spark_options import SparkRequest
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.simulate.kinds import ReplicaDisagreement
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import BoundaryRow, PartitionRow
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
    from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings
    from tiersnap.snapshot.log.findings import Finding
    from tiersnap.snapshot.log.selection import NamedLogDir

_MB = 1_000_000
PARTITION_COLUMNS = {
    "name": "partition",
    "causes": "snapshots",
    "at": "worst at",
    "lost": "lost",
    "degraded": "degraded",
    "doubled": "doubled",
    "doubled_records": "records",
    "exposed": "exposed for",
    "waits": "wait for retention",
    "untiered": "untiered",
    "replay": "replay: full, bounded, incremental",
}
BOUNDARY_COLUMNS = {
    "name": "partition",
    "offset": "offset",
    "snapshot": "snapshot",
    "cause": "cause",
    "producers": "producers",
    "lost": "lost",
    "degraded": "degraded",
    "doubled": "doubled",
    "doubled_records": "records",
    "exposed": "exposed for",
    "open_transactions": "open transactions",
    "aborted_records": "aborted records",
    "replay": "replay: full, bounded, incremental",
}


@dataclass(frozen=True, slots=True)
class SimulateSummary:
    """The summary of `simulate`. With --risk it has a sentence for each alternative that KIP-952 rejected.

    If no snapshot is missing or wrong, `risk` is the only sentence about the risk.

    Attributes:
        summary: a sentence about all rows.
        not_compared: partitions that were not simulated.
        risk: the sentence that no snapshot is missing or wrong.
        empty_snapshots: cost of empty snapshots.
        waiting: cost of waiting for retention.
        archiving_none: bytes and time of replays, the cost if brokers archive no snapshots.
        replicas: results of --replica.
    """

    NOT_TOLD: ClassVar = ("replicas",)
    summary: str | UnsetType = UNSET
    not_compared: (
        Annotated[
            int, Meta(description="partitions whose producers are unknown, because their logs begin in remote storage")
        ]
        | UnsetType
    ) = UNSET
    risk: str | UnsetType = UNSET
    empty_snapshots: str | UnsetType = UNSET
    waiting: str | UnsetType = UNSET
    archiving_none: str | UnsetType = UNSET
    replicas: list[ReplicaDisagreement] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class RiskRequest:
    """The options of --risk; durations in ms, `read_rate` in MB/s."""

    is_asked: bool
    boundaries: bool
    replicas: tuple[str, ...]
    limit: int
    retention: int | None
    retention_bytes: int | None
    tiering_enabled: bool
    delivery_timeout: int | None
    read_rate: int

    def settings(self, broker_expiry: opt.BrokerExpiry, broker: BrokerEra | None) -> RiskSettings:
        """Return the settings of the estimate, with the expiration and the broker release of `simulate`."""
        from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS
        from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings
        from tiersnap.snapshot.exactly_once.simulate.retention_wait import TopicRetention

        return RiskSettings(
            broker_expiry.now,
            broker_expiry.expiration,
            TopicRetention(self.retention, self.retention_bytes),
            self.delivery_timeout or 0,
            self.read_rate * _MB,
            self.tiering_enabled,
            BROKER_ERAS[-1] if broker is None else broker,
        )


# The command receives these options as `risk: RiskRequest`.
risk_options = opt.as_one(
    "risk",
    RiskRequest,
    click.option(
        "--risk",
        "is_asked",
        is_flag=True,
        help="Estimate the cost of tiering without snapshots, for each alternative that KIP-952 rejected.",
    ),
    click.option("--boundaries", is_flag=True, help="Print a row for each segment end, not for each partition."),
    click.option(
        "--replica",
        "replicas",
        multiple=True,
        metavar="DIR",
        help="Compare LOGDIR with this log directory of another replica; repeatable.",
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=1000,
        show_default=True,
        help="Number of rows to print with --warehouse.",
    ),
    click.option(
        "--retention",
        type=DURATION,
        default="7d",
        show_default=True,
        help="retention.ms of the topics; `none`: unlimited retention.",
    ),
    click.option(
        "--retention-bytes", type=click.IntRange(min=0), help="retention.bytes of the topics.  [default: none]"
    ),
    click.option(
        "--tiering-enabled",
        is_flag=True,
        help="Assume remote.storage.enable=true: retention then deletes no segment that is not tiered.",
    ),
    click.option(
        "--delivery-timeout",
        type=DURATION,
        default="2m",
        show_default=True,
        help="delivery.timeout.ms of the producers: how long a producer retries a batch.",
    ),
    click.option(
        "--read-rate",
        type=click.IntRange(min=1),
        default=500,
        show_default=True,
        metavar="MB/S",
        help="Replay speed in million bytes per second.",
    ),
)


def show_risk_of_host(
    output: Output,
    opened: Sequence[NamedLogDir],
    selection: opt.Selection,
    settings: RiskSettings,
    asked: RiskRequest,
    *,
    check_crc: bool,
) -> int:
    """Print the cost of KIP-952's rejected alternatives for log directories, and return the exit code."""
    from tiersnap.snapshot.exactly_once.simulate.risk_log_dirs import HostRisk
    from tiersnap.snapshot.exactly_once.simulate.risk_rows import RiskTotals, boundary_rows, partition_row
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.log.selection import count, selected_of

    host, progress = HostRisk(opened, check_crc), Progress(output, "reading", count(opened, selection))
    risks = list(host.risks(progress.watch(selected_of(opened, selection)), settings))
    others = list(chain.from_iterable(map(host.disagreements, asked.replicas)))
    rows = list(map(partition_row, risks))
    sentences = RiskTotals.of(rows).sentences()
    found: list[BoundaryRow | PartitionRow] = [*rows]
    if asked.boundaries:
        found = list(chain.from_iterable(map(boundary_rows, risks)))
    _show_risk(output, found, sentences, asked, others, several=len(opened) > 1, findings=host.findings)
    if output.format is not Format.JSON:
        for row in others:
            output.talk(_disagreement(row))
    if host.never_tiered:
        output.talk(f"left out: {count_of(host.never_tiered, 'partition')} of topics that brokers never tier")
    tell_not_compared(output, host.log_starts.continued, [each.uri for each in host.log_dirs])
    output.warn(*of_unlocated(host.log_starts.unlocated, remote=False))
    return exit_code_of([*host.findings, *[Verdict.UNKNOWN_LOG_START] * len(host.log_starts.unlocated)])


def show_risk_of_warehouse(
    output: Output,
    spark: SparkRequest,
    uri: str,
    selection: opt.Selection,
    settings: RiskSettings,
    asked: RiskRequest,
) -> int:
    """Print the cost of KIP-952's rejected alternatives for partitions of a warehouse, and return the exit code."""
    if asked.replicas:
        raise UsageError(
            "--replica needs a LOGDIR", hint="the tables of --warehouse do not have the entries of snapshot files"
        )
    from tiersnap.jobs.pipeline.risk import risk_of_warehouse
    from tiersnap.snapshot.gate.exit_code import exit_code_of

    found = risk_of_warehouse(spark.session, uri, selection, settings, boundaries=asked.boundaries, limit=asked.limit)
    _show_risk(output, found.rows, found.totals.sentences(), asked, several=True)
    output.talk(*found.said)
    return exit_code_of(())


def _show_risk(
    output: Output,
    rows: Iterable[BoundaryRow | PartitionRow],
    sentences: Mapping[str, str],
    asked: RiskRequest,
    others: Sequence[ReplicaDisagreement] = (),
    *,
    several: bool,
    findings: Sequence[Finding] = (),
) -> None:
    kind: type[Any]
    kind, columns = PartitionRow, PARTITION_COLUMNS
    if asked.boundaries:
        kind, columns = BoundaryRow, BOUNDARY_COLUMNS
    worst_first = sorted(rows, key=lambda row: row.severity)
    summary = SimulateSummary(**dict[str, Any](sentences), replicas=list(others) or UNSET)
    output.rows(kind, worst_first, columns=columns, several=several, summary=summary, findings=findings)
    if output.format is Format.JSONL:
        for name, sentence in sentences.items():
            output.talk(f"{name.replace('_', ' ')}: {sentence}")


def _disagreement(row: ReplicaDisagreement) -> str:
    said = [f"{count_of(row.compared, 'snapshot')} compared"]
    if row.offset is not None:
        said.append(
            f"the replica's snapshot at offset {row.offset} lacks {count_of(row.only_here, 'producer')} of LOGDIR's "
            f"snapshot, has {count_of(row.only_there, 'producer')} that LOGDIR's snapshot lacks, and has other values "
            f"for {count_of(row.differing, 'producer')}"
        )
    if row.log_start_goes_back:
        said.append(
            f"the replica's log starts at offset {row.log_start_offset_there}, below {row.log_start_offset} in LOGDIR"
        )
    return f"replica {row.partition} in {row.replica}: {'; '.join(said)}"
