"""What `audit` shows: a row a finding, the worst first, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.damage import summary_of, talk_of
from tiersnap.snapshot.units import count_of, utc

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.audit.job import AuditOutcome

_COLUMNS = (
    *("kind", "harm", "judgement", "confidence", "rule", "topic", "partition", "time", "producer_id", "before_epoch"),
    *("producer_epoch", "transactional_id", "before_last_offset", "first_offset", "before_last_sequence"),
    *("first_sequence", "distance", "batches", "segment_file", "position"),
)


def show(output: Output, done: AuditOutcome) -> None:
    """The result."""
    summary = {"findings_by_kind": done.counts, "findings_by_harm": done.harms, **summary_of(done.damage)}
    damage = done.damage
    output.row_dicts("audit", list(map(_row, done.rows)), columns=_COLUMNS, summary=summary, findings=damage.findings)
    for line in (*talk_of(damage), *_talk(done)):
        output.talk(line)


def _row(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A finding, with the path of its segment's file and its time in words."""
    base = finding["segment_base_offset"]
    folder = f"{finding['log_dir']}/{finding['topic']}-{finding['partition']}"
    return {
        **finding,
        "time": utc(finding["timestamp"]),
        "segment_file": None if base is None else f"{folder}/{base:020d}.log",
    }


def _talk(done: AuditOutcome) -> list[str]:
    total, shown, unread, unknown = done.total, len(done.rows), done.unread, done.unknown_partitions
    lines = ["no findings"] if not (total or done.damage.counts or done.cut_segments) else []
    if total > shown:
        lines.append(f"{count_of(total - shown, 'finding')} more: --limit {total} prints them, --to URI keeps them")
    if unread:
        lines.append(
            f"{count_of(unread, 'finding lies', 'findings lie')} where nothing was decoded: tiersnap scan LOGDIR "
            "--segments says why"
        )
    if done.cut_segments:
        lines.append(
            f"{count_of(done.cut_segments, 'segment was', 'segments were')} decoded in part, nothing is known of what "
            "lies behind: tiersnap decode --source LOGDIR says why"
        )
    if unknown:
        lines.append(
            f"{count_of(unknown, 'partition is', 'partitions are')} taken as not compacted and whole, for no run has "
            "carried them; tiersnap audit --source LOGDIR looks at the disk"
        )
    return lines
