"""The index of runs beside a report: one head a run, and what a folder remembers of them.

runs.json: {"schema_version": 1, "runs": [head, ...]}, oldest first; the keys of a head are the fields of RunHead.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from tiersnap.snapshot.report.model import Report

SCHEMA_VERSION = 1
_MOST_SHOWN = 200  # characters of what is wrong


@dataclass(frozen=True, slots=True)
class RunHead:
    """What the index says of one run.

    Attributes:
        finished_at: epoch ms.
        applied: False when the run only planned.
        worst: a Verdict; None without segments.
        level: a Level.
        bytes: of all segment files; the other counts are parts of it, see Totals.
    """

    run_id: str
    finished_at: int
    applied: bool
    source: str
    remote: str
    version: str
    worst: str | None
    level: str
    partitions: int
    segments: int
    bytes: int
    tiered_segments: int
    tiered_bytes: int
    ready_segments: int
    ready_bytes: int
    waiting_segments: int
    waiting_bytes: int
    never_tiered_segments: int
    never_tiered_bytes: int

    @classmethod
    def of(cls, report: Report) -> RunHead:
        """The head of a report."""
        run, total = report.run, report.cluster
        return cls(
            run_id=run.run_id,
            finished_at=run.finished_at,
            applied=run.applied,
            source=run.source,
            remote=run.remote,
            version=run.version,
            worst=None if total.worst is None else str(total.worst),
            level=str(total.level),
            partitions=report.partition_count,
            segments=total.all.segments,
            bytes=total.all.bytes,
            tiered_segments=total.tiered.segments,
            tiered_bytes=total.tiered.bytes,
            ready_segments=total.ready.segments,
            ready_bytes=total.ready.bytes,
            waiting_segments=total.waiting.segments,
            waiting_bytes=total.waiting.bytes,
            never_tiered_segments=total.never_tiered.segments,
            never_tiered_bytes=total.never_tiered.bytes,
        )


def to_text(heads: Sequence[RunHead]) -> str:
    """runs.json."""
    rows = [json.dumps(asdict(head), ensure_ascii=False) for head in heads]
    return f'{{"schema_version": {SCHEMA_VERSION}, "runs": [\n' + ",\n".join(rows) + "\n]}\n"


def from_text(text: str) -> tuple[RunHead, ...]:
    """The inverse of `to_text`.

    Raises:
        ValueError: it is not of this version's form.
    """
    try:
        found = json.loads(text)
        if found["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {found['schema_version']}, {SCHEMA_VERSION} is known")
        names = [field.name for field in fields(RunHead)]
        return tuple(RunHead(**{name: row[name] for name in names}) for row in found["runs"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no index of runs: {error!r}"[:_MOST_SHOWN]) from error


def with_head(earlier: Sequence[RunHead], head: RunHead) -> tuple[RunHead, ...]:
    """The index with a run in it, each once, by time."""
    others = [each for each in earlier if each.run_id != head.run_id]
    return tuple(sorted([*others, head], key=lambda each: (each.finished_at, each.run_id)))


def before(heads: Sequence[RunHead], head: RunHead) -> RunHead | None:
    """The run before; None for the first one."""
    older = [each for each in heads if (each.finished_at, each.run_id) < (head.finished_at, head.run_id)]
    return older[-1] if older else None
