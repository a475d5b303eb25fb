"""`tiersnap simulate --risk`: what the ways that KIP-952 rejected would cost the logs that are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs import options as opt
from tiersnap.jobs.option_types import DURATION
from tiersnap.jobs.output import Format, Output, of_row
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.sentences import of_unlocated, tell_not_compared
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.simulate.kinds import ReplicaDisagreement
from tiersnap.snapshot.members import members
from tiersnap.snapshot.units import count_of, human_bytes, human_duration

if TYPE_CHECKING:
    from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
    from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskSettings
    from tiersnap.snapshot.exactly_once.simulate.risk_kinds import Exposure
    from tiersnap.snapshot.exactly_once.simulate.risk_rows import BoundaryRow, PartitionRow
    from tiersnap.snapshot.log.findings import Finding
    from tiersnap.snapshot.log.selection import NamedLogDir

_MB = 1_000_000
_WAITS = {
    "NOTHING_TO_WAIT_FOR": "-",
    "FOR_EVER": "for ever",
    "STUCK_TIERING_ENABLED": "stuck: tiering is enabled",
}


@dataclass(frozen=True)
class _Where:
    log_dir: str
    topic: str
    partition: str


@dataclass(frozen=True)
class _Exposed:
    producers: int | None
    lost: int | None
    degraded: int | None
    doubled: int | None
    doubled_automatically: int | None
    doubled_records: int | None
    doubled_bytes: int | None
    fencing_lost: int | None
    coordinator_epochs_lost: int | None
    open_transactions_lost: int | None
    exposed_ms: int | None
    producer_ms: int | None
    open_transactions: int | None
    aborted: int | None
    aborted_records: int | None
    aborted_bytes: int | None
    beginning_late: int | None
    undecided: int | None


@dataclass(frozen=True)
class _Replayed:
    full_bytes: int | None
    full_ms: int | None
    bounded_bytes: int | None
    bounded_ms: int | None
    incremental_bytes: int | None
    incremental_ms: int | None
    window_offset: int | None
    nearest_offset: int | None


@dataclass(frozen=True)
class _InWords:
    exposed: str | None
    replay: str | None


@dataclass(frozen=True)
class _OfPartition:
    segments: int
    bytes: int
    alive: int | None
    outlived: int | None
    causes: dict[str, int] | None
    at: int | None


@dataclass(frozen=True)
class _Waiting:
    wait: str
    waiting_segments: int
    first_waiting_offset: int | None
    wait_ms: int | None
    ready_at: int | None
    untiered_bytes: int | None
    grows_by_bytes: int | None


@dataclass(frozen=True)
class _Rates:
    bounded_mismatches: dict[str, int] | None
    bytes_per_second: int | None
    segment_ms: int | None
    segments_per_expiration: float | None
    automatic_retry_bytes_per_second: int | None
    has_headers: bool | None


@dataclass(frozen=True)
class _OfBoundary:
    offset: int
    snapshot: str
    cause: str | None


# Fields stand in the order of the bases, the last one first.
@dataclass(frozen=True)
class PartitionRisk(_InWords, _Rates, _Replayed, _Waiting, _Exposed, _OfPartition, _Where):
    """A partition of `simulate --risk`."""

    COLUMNS: ClassVar = {
        "partition": "partition",
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
    waits: str
    untiered: str


@dataclass(frozen=True)
class BoundaryRisk(_InWords, _Replayed, _Exposed, _OfBoundary, _Where):
    """A segment's end of `simulate --risk --boundaries`."""

    COLUMNS: ClassVar = {
        "partition": "partition",
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
    """All rows in a sentence; with --risk one for each of KIP-952's rejected ways, or `risk` if none applies."""

    NOT_TOLD: ClassVar = ("replicas",)
    summary: str | UnsetType = UNSET
    not_compared: (
        Annotated[int, Meta(description="partitions of LOGDIR whose logs begin in remote storage, unknown how")]
        | UnsetType
    ) = UNSET
    risk: str | UnsetType = UNSET
    empty_snapshots: str | UnsetType = UNSET
    waiting: str | UnsetType = UNSET
    archiving_none: str | UnsetType = UNSET
    replicas: list[ReplicaDisagreement] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class RiskRequest:
    """The options; times in ms, `read_rate` in MB/s."""

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
        """Return the settings, with the times in ms and the brokers that all of `simulate` has."""
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


# Given to the command as `risk: RiskRequest`.
risk_options = opt.as_one(
    "risk",
    RiskRequest,
    click.option(
        "--risk",
        "is_asked",
        is_flag=True,
        help="Instead, what the ways that KIP-952 rejected would cost the logs.",
    ),
    click.option("--boundaries", is_flag=True, help="A row a segment's end instead of a row a partition."),
    click.option("--replica", "replicas", multiple=True, metavar="DIR", help="A log directory of another replica."),
    click.option(
        "--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows shown of a warehouse."
    ),
    click.option(
        "--retention",
        type=DURATION,
        default="7d",
        show_default=True,
        help="The topics' retention.ms; none keeps all.",
    ),
    click.option("--retention-bytes", type=click.IntRange(min=0), help="The topics' retention.bytes.  [default: none]"),
    click.option(
        "--tiering-enabled", is_flag=True, help="remote.storage.enable is true already: then waiting never ends."
    ),
    click.option(
        "--delivery-timeout",
        type=DURATION,
        default="2m",
        show_default=True,
        help="The producers' delivery.timeout.ms: for so long they send a batch again by themselves.",
    ),
    click.option(
        "--read-rate",
        type=click.IntRange(min=1),
        default=500,
        show_default=True,
        metavar="MB/S",
        help="Million bytes a second at which a log is replayed.",
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
    """Show what the rejected ways would cost the log directories; return the exit code."""
    from tiersnap.snapshot.exactly_once.simulate.risk_log_dirs import HostRisk
    from tiersnap.snapshot.exactly_once.simulate.risk_rows import RiskTotals, boundary_rows, partition_row
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.log.selection import count, selected_of

    host, progress = HostRisk(opened, check_crc), Progress(output, "reading", count(opened, selection))
    risks = list(host.risks(progress.watch(selected_of(opened, selection)), settings))
    others = [found for each in asked.replicas for found in host.disagreements(each)]
    rows = [partition_row(each) for each in risks]
    sentences = RiskTotals.of(rows).sentences()
    found: list[BoundaryRow | PartitionRow] = (
        [row for each in risks for row in boundary_rows(each)] if asked.boundaries else [*rows]
    )
    _show_risk(output, found, sentences, asked, others, several=len(opened) > 1, findings=host.findings)
    if output.format is not Format.JSON:
        for row in others:
            output.talk(_disagreement(row))
    if host.never_tiered:
        output.talk(f"left out: {count_of(host.never_tiered, 'partition')} of topics that are never tiered")
    tell_not_compared(output, host.not_compared, [each.uri for each in host.log_dirs])
    output.warn(*of_unlocated(host.unlocated, remote=False))
    return exit_code_of([*host.findings, *(Verdict.UNKNOWN_LOG_START for _ in host.unlocated)])


def show_risk_of_warehouse(
    output: Output,
    spark: opt.SparkRequest,
    uri: str,
    selection: opt.Selection,
    settings: RiskSettings,
    asked: RiskRequest,
) -> int:
    """Show what the rejected ways would cost the partitions of a warehouse; return the exit code."""
    if asked.replicas:
        raise UsageError("--replica needs a LOGDIR", hint="the tables hold no entries of snapshot files")
    from tiersnap.jobs.pipeline.simulate import risk_of_warehouse
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
    kind: type[Any] = BoundaryRisk if asked.boundaries else PartitionRisk
    shown = [_in_words(row) for row in sorted(rows, key=lambda row: row.severity)]
    summary = of_row(SimulateSummary, {**sentences, "replicas": list(others) or UNSET})
    output.rows(kind, shown, several=several, summary=summary, findings=findings)
    if output.format is Format.JSONL:
        for name, sentence in sentences.items():
            output.talk(f"{name.replace('_', ' ')}: {sentence}")


def _in_words(row: BoundaryRow | PartitionRow) -> BoundaryRisk | PartitionRisk:
    """Return a row with the partition's name, and its numbers once more in words."""
    from tiersnap.snapshot.exactly_once.simulate.risk_rows import BoundaryRow

    cost = row.cost
    ways = None if cost is None else (cost.full_bytes, cost.bounded_bytes, cost.incremental_bytes)
    said = {
        "partition": f"{row.topic}-{row.partition}",
        "exposed": _exposed(row.exposure),
        "replay": None if ways is None else ", ".join(map(human_bytes, ways)),
    }
    if isinstance(row, BoundaryRow):
        return of_row(BoundaryRisk, {**members(row), **said})
    waits = _WAITS.get(row.waiting.wait) or human_duration(row.waiting.wait_ms or 0)
    untiered = human_bytes(row.waiting.untiered_bytes)
    return of_row(PartitionRisk, {**members(row), **said, "waits": waits, "untiered": untiered})


def _exposed(exposure: Exposure | None) -> str | None:
    if exposure is None:
        return None
    if not exposure.lost:
        return "-"
    return "for ever" if exposure.exposed_ms is None else human_duration(exposure.exposed_ms)


def _disagreement(row: ReplicaDisagreement) -> str:
    said = [f"{count_of(row.compared, 'snapshot')} compared"]
    if row.offset is not None:
        said.append(
            f"at {row.offset} it lacks {count_of(row.only_here, 'producer')}, has {row.only_there} of its own and"
            f" says otherwise of {row.differing}"
        )
    if row.log_start_goes_back:
        said.append(f"its log starts at {row.log_start_offset_there}, below {row.log_start_offset} here")
    return f"replica {row.partition} in {row.replica}: {'; '.join(said)}"
