"""What `audit` shows: a row a finding, the worst first, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiersnap.jobs.command_line.output import Output
from tiersnap.jobs.tell.damage import summary_of, talk_of
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.audit import AuditOutcome

_COLUMNS = (
    *("kind", "harm", "judgement", "rule", "topic", "partition", "producer_id", "before_epoch", "producer_epoch"),
    *("before_last_offset", "first_offset", "before_last_sequence", "first_sequence", "distance", "batches"),
)


def show(output: Output, done: AuditOutcome) -> None:
    """The result."""
    summary = {"findings_by_kind": done.counts, "findings_by_harm": done.harms, **summary_of(done.damage)}
    damage = done.damage
    output.rows("audit", done.rows, columns=_COLUMNS, summary=summary, findings=damage.findings)
    for line in (*talk_of(damage), *_talk(done)):
        output.talk(line)


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
