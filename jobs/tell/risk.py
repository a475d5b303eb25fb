"""What `simulate --risk` shows: a row a partition or a boundary, the worst first, and what replicas say otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tiersnap.jobs.output import Format, Output
from tiersnap.snapshot.exactly_once.risk.log_dirs import HostRisk
from tiersnap.snapshot.exactly_once.risk.partition_risk import PartitionRisk
from tiersnap.snapshot.exactly_once.risk.rows import boundary_rows, partition_row, severity
from tiersnap.snapshot.exactly_once.risk.summary import Totals
from tiersnap.snapshot.exactly_once.risk.waiting import Wait
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.units import count_of, human_bytes, human_duration

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.risk import RiskOutcome

# Keys of a row, and the headings over them.
PARTITION_COLUMNS = {
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
BOUNDARY_COLUMNS = {
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


def show_host(
    output: Output,
    host: HostRisk,
    risks: Sequence[PartitionRisk],
    disagreements: Sequence[dict[str, object]],
    *,
    boundaries: bool,
) -> None:
    """What was found in log directories of this host; with `boundaries` a row a boundary.

    Args:
        disagreements: rows of `host.disagreements`.
    """
    rows = [partition_row(each) for each in risks]
    sentences = Totals.of(rows).sentences()
    summary: dict[str, object] = dict(sentences)
    if disagreements and output.format is not Format.TABLE:
        summary["replicas"] = list(disagreements)
    shown = [row for each in risks for row in boundary_rows(each)] if boundaries else rows
    _rows(output, shown, summary, boundaries=boundaries, several=len(host.log_dirs) > 1, findings=host.findings)
    _tell_sentences(output, sentences)
    if output.format is not Format.JSON:
        for row in disagreements:
            output.talk(_disagreement(row))
    if host.never_tiered:
        output.talk(f"left out: {count_of(host.never_tiered, 'partition')} of topics that are never tiered")


def show_fleet(output: Output, found: RiskOutcome, *, boundaries: bool) -> None:
    """What was found in the tables of a warehouse."""
    sentences = found.totals.sentences()
    _rows(output, found.rows, sentences, boundaries=boundaries, several=True)
    _tell_sentences(output, sentences)
    for line in found.said:
        output.talk(line)


def _rows(
    output: Output,
    rows: Iterable[dict[str, object]],
    summary: Mapping[str, object],
    *,
    boundaries: bool,
    several: bool,
    findings: Sequence[Finding] = (),
) -> None:
    where = {"log_dir": "log dir"} if several else {}
    columns = {**where, **(BOUNDARY_COLUMNS if boundaries else PARTITION_COLUMNS)}
    shown = [told(row) for row in sorted(rows, key=severity)]
    output.row_dicts("simulate", shown, columns=columns, summary=summary, findings=findings)


def _tell_sentences(output: Output, sentences: Mapping[str, str]) -> None:
    if output.format is Format.JSONL:
        for name, sentence in sentences.items():
            output.talk(f"{name.replace('_', ' ')}: {sentence}")


def told(row: Mapping[str, object]) -> dict[str, object]:
    """A row of PARTITION_RISK or BOUNDARY_RISK with the partition's name, and its numbers once more in words."""
    said: dict[str, object] = {**row, "partition": f"{row['topic']}-{row['partition']}"}
    said["exposed"] = _exposed(row)
    said["replay"] = (
        None
        if row["full_bytes"] is None
        else ", ".join(human_bytes(_number(row[f"{way}_bytes"])) for way in ("full", "bounded", "incremental"))
    )
    if "wait" in row:
        said["waits"] = (
            human_duration(_number(row["wait_ms"])) if row["wait"] == Wait.WAITING else _WAITS[str(row["wait"])]
        )
        said["untiered"] = human_bytes(_number(row["untiered_bytes"]))
    return said


_WAITS = {
    str(Wait.NOTHING_TO_WAIT_FOR): "-",
    str(Wait.FOR_EVER): "for ever",
    str(Wait.STUCK_TIERING_ENABLED): "stuck: tiering is enabled",
}


def _exposed(row: Mapping[str, object]) -> str | None:
    if row["lost"] is None:
        return None
    if not row["lost"]:
        return "-"
    return "for ever" if row["exposed_ms"] is None else human_duration(_number(row["exposed_ms"]))


def _number(value: object) -> int:
    return int(str(value))


def _disagreement(row: dict[str, object]) -> str:
    where = f"{row['partition']} in {row['replica']}"
    said = [f"{count_of(_number(row['compared']), 'snapshot')} compared"]
    if row["offset"] is not None:
        lacking = count_of(_number(row["only_here"]), "producer")
        said.append(
            f"at {row['offset']} it lacks {lacking}, has {row['only_there']} of its own and"
            f" says otherwise of {row['differing']}"
        )
    if row["log_start_goes_back"]:
        said.append(f"its log starts at {row['log_start_offset_there']}, below {row['log_start_offset']} here")
    return f"replica {where}: {'; '.join(said)}"
