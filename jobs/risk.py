"""`tiersnap risk`: KIP-952's rejected alternatives in numbers for the logs that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import expand, partition_option
from tiersnap.jobs.options.place import warehouse_of, warehouse_option
from tiersnap.jobs.options.risk import risk_options
from tiersnap.jobs.options.spark import spark_options
from tiersnap.jobs.output import Format, Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.risk import BOUNDARY_COLUMNS, PARTITION_COLUMNS, told
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, count, named, open_log_dirs, selected_of
from tiersnap.snapshot.risk.partition_risk import PartitionRisk, RiskSettings, partition_risk
from tiersnap.snapshot.risk.replicas import held_against
from tiersnap.snapshot.risk.rows import boundary_rows, partition_row, severity
from tiersnap.snapshot.risk.summary import Totals
from tiersnap.snapshot.risk.survey_log import survey_log


@click.command()
@click.argument("log_dirs", nargs=-1, metavar="[LOGDIR]...", envvar="TIERSNAP_SOURCE")
@warehouse_option
@params.topic_option
@partition_option
@params.crc_option
@click.option("--boundaries", is_flag=True, help="A row a segment's end instead of a row a partition.")
@click.option("--replica", "replicas", multiple=True, metavar="DIR", help="A log directory of another replica.")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows shown of a warehouse.")
@risk_options
@spark_options
@params.output_option
@click.pass_context
def risk(
    ctx: click.Context,
    log_dirs: tuple[str, ...],
    warehouse: str | None,
    topic: re.Pattern[str] | None,
    partitions: tuple[TopicPartition, ...],
    check_crc: bool,
    boundaries: bool,
    replicas: tuple[str, ...],
    limit: int,
    settings: RiskSettings,
    master: str | None,
    conf: dict[str, str],
) -> int:
    """Say what the alternatives that KIP-952 rejected would cost the logs of LOGDIR, worst first; nothing is written.

    An empty snapshot at each segment's end that lacks a right one: which producers it would lose, what would be
    appended twice, how long. Waiting until retention has removed those segments: how long, and how much stays untiered.
    A replay: bytes and time in full, within the expiration as KIP-952 proposed, and from the nearest snapshot on.

    With --warehouse the same over all partitions that a run has read, on Spark.
    """
    output: Output = ctx.obj
    selection = Selection(topic, frozenset(partitions))
    uri = warehouse_of(ctx, "log_dirs", log_dirs, warehouse)
    if uri is not None:
        if replicas:
            raise UsageError("--replica needs a LOGDIR", hint="the tables hold no entries of snapshot files")
        from tiersnap.jobs.pipeline.risk import risk_of_warehouse
        from tiersnap.jobs.session import open_session

        found = risk_of_warehouse(
            open_session(master, conf), uri, selection, settings, boundaries=boundaries, limit=limit
        )
        _show(output, found.rows, found.totals, boundaries=boundaries, several=True)
        for line in found.said:
            output.talk(line)
        return ExitCode.OK
    host = _Host(output, expand(log_dirs), selection, check_crc)
    risks = list(host.risks(settings))
    rows = [partition_row(each) for each in risks]
    shown = [row for each in risks for row in boundary_rows(each)] if boundaries else rows
    others = [row for replica in replicas for row in host.disagreements(replica)]
    totals = Totals.of(rows)
    _show(output, shown, totals, boundaries=boundaries, several=len(host.opened) > 1, others=others, host=host)
    return host.exit_code


def _show(
    output: Output,
    rows: list[dict[str, object]],
    totals: Totals,
    *,
    boundaries: bool,
    several: bool,
    others: list[dict[str, object]] | None = None,
    host: _Host | None = None,
) -> None:
    columns = BOUNDARY_COLUMNS if boundaries else PARTITION_COLUMNS
    shown = [told(row) for row in sorted(rows, key=severity)]
    sentences = totals.sentences()
    summary: dict[str, object] = {**sentences, **({"replicas": others} if others else {})}
    if output.format is Format.TABLE:
        summary.pop("replicas", None)
    where = {"log_dir": "log dir"} if several else {}
    findings = [] if host is None else host.findings
    output.rows("risk", shown, columns={**where, **columns}, summary=summary, findings=findings)
    if output.format is Format.JSONL:
        for name, sentence in sentences.items():
            output.talk(f"{name.replace('_', ' ')}: {sentence}")
    for row in others or () if output.format is not Format.JSON else ():
        output.talk(_disagreement(row))
    if host is not None and host.never_tiered:
        output.talk(f"left out: {host.never_tiered} partitions of topics that are never tiered")


@dataclass
class _Host:
    """The partitions of this host that were asked about."""

    output: Output
    log_dirs: tuple[str, ...]
    selection: Selection
    check_crc: bool
    findings: list[Finding] = field(default_factory=list)
    never_tiered: int = 0
    opened: tuple[NamedLogDir, ...] = field(init=False)
    _partitions: list[tuple[NamedLogDir, Partition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opened = open_log_dirs(self.log_dirs)
        for each in self.opened:
            self.findings.extend(each.log_dir.findings)

    def risks(self, settings: RiskSettings) -> Iterator[PartitionRisk]:
        """Read the logs, one after the other."""
        progress = Progress(self.output, "reading", count(self.opened, self.selection))
        for each, partition in progress.watch(selected_of(self.opened, self.selection)):
            survey, findings = survey_log(each.log_dir.filesystem, each.uri, partition, check_crc=self.check_crc)
            self.findings.extend(findings)
            self._partitions.append((each, partition))
            if survey.never_tiered:
                self.never_tiered += 1
            else:
                yield partition_risk(survey, settings)

    def disagreements(self, replica: str) -> Iterator[dict[str, object]]:
        """Of the partitions that were read and are in the other directory, too."""
        other = open_log_dir(replica)
        ours = {(each.topic, each.partition): (place, each) for place, each in self._partitions}
        for theirs in named(other, ours.keys()):
            place, mine = ours[theirs.topic, theirs.partition]
            row = held_against((place.log_dir.filesystem, mine), (other.filesystem, theirs))
            yield {"replica": replica, **row}

    @property
    def exit_code(self) -> ExitCode:
        """That of `scan` for the same findings."""
        if any(finding.kind is not FindingKind.PERMISSION_DENIED for finding in self.findings):
            return ExitCode.DATA_CORRUPT
        return ExitCode.PARTIAL if self.findings else ExitCode.OK


def _disagreement(row: dict[str, object]) -> str:
    where = f"{row['partition']} in {row['replica']}"
    said = [f"{row['compared']} snapshots compared"]
    if row["offset"] is not None:
        said.append(
            f"at {row['offset']} it lacks {row['only_here']} producers, has {row['only_there']} of its own and says "
            f"otherwise of {row['differing']}"
        )
    if row["log_start_goes_back"]:
        said.append(f"its log starts at {row['log_start_offset_there']}, below {row['log_start_offset']} here")
    return f"replica {where}: {'; '.join(said)}"
