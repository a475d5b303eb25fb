"""Sum up the rows of `remote_checks`: how much of each partition's remote segments was verified, when and how."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from tiersnap.snapshot.errors import SourceNotFoundError, UsageError
from tiersnap.snapshot.readiness.remote_check import NO_LOG, SOUND, RemoteVerdict
from tiersnap.snapshot.report.run_info import Size
from tiersnap.snapshot.units import count_of, human_bytes, utc

Key = tuple[str, str | None, int]  # topic, topic id, partition
COLUMNS = (
    *("topic", "topic_id", "partition", "segment_id", "base_offset", "listed", "listed_from", "bytes"),
    *("depth", "verdict", "compared_with", "checked_at"),
)


@dataclass(frozen=True, kw_only=True)
class RemoteChecked:
    """The part of a partition's remote segments that was verified.

    Attributes:
        segments: in remote storage, when the newest check listed them.
        verified, bytes: of them, segments that were verified, and the bytes of their objects.
        compared: of those, segments whose snapshot was compared with a log.
        unsound: SUSPECT, CORRUPT, MISSING or UNVERIFIED.
        depths: verified segments by depth.
    """

    segments: Size
    verified: Size
    bytes: Size
    compared: Size
    unsound: Size
    depths: dict[str, Size]
    last_at: Annotated[int, Meta(description="ms")]

    @property
    def sentence(self) -> str:
        """For people."""
        of = count_of(self.segments, "remote segment was", "remote segments were")
        how = ", ".join(f"{count} at depth {depth}" for depth, count in sorted(self.depths.items()))
        wrong = f"{count_of(self.unsound, 'is', 'are')} not sound" if self.unsound else "all are sound"
        return (
            f"{self.verified} of {of} verified ({human_bytes(self.bytes)}; {how}), the last {utc(self.last_at)}; "
            f"snapshots of {self.compared} were compared with a log; {wrong}"
        )


def remote_checked(rows: Iterable[Mapping[str, Any]]) -> dict[Key, RemoteChecked]:
    """Sum up rows of `remote_checks`, or lines of `tiersnap verify --remote`, by partition.

    Of the rows of one segment the latest counts, unless retention has deleted it since; a row of offsets that no
    segment holds counts if its partition has no later row.
    """
    newest: defaultdict[Key, dict[str | int, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        of_partition, name = newest[row["topic"], row["topic_id"], row["partition"]], row["segment_id"]
        known = of_partition.get(name or row["base_offset"])
        if known is None or known["checked_at"] <= row["checked_at"]:
            of_partition[name or row["base_offset"]] = row
    return {key: _summed(list(found.values())) for key, found in newest.items()}


def _summed(rows: list[Mapping[str, Any]]) -> RemoteChecked:
    last = max(rows, key=lambda row: row["checked_at"])
    # A check that could not list the partition tells 0, and nothing of what earlier ones found.
    listing = max(rows, key=lambda row: (row["listed"] > 0, row["checked_at"]))
    named = (row for row in rows if row["segment_id"] and row["verdict"] != RemoteVerdict.GONE)
    segments = [row for row in named if row["base_offset"] >= listing["listed_from"]]
    holes = [row for row in rows if not row["segment_id"] and row["checked_at"] == last["checked_at"]]
    return RemoteChecked(
        segments=listing["listed"],
        verified=min(len(segments), listing["listed"]),
        bytes=sum(row["bytes"] for row in segments),
        compared=sum(row["compared_with"] not in NO_LOG for row in segments),
        unsound=sum(row["verdict"] not in SOUND for row in (*segments, *holes)),
        depths=dict(Counter(row["depth"] for row in segments)),
        last_at=last["checked_at"],
    )


def read_lines(file: Path, *, may_be_empty: bool = False) -> Iterator[dict[str, Any]]:
    """Give the segments that JSON lines of `tiersnap verify --remote` tell; other lines are passed by.

    Args:
        may_be_empty: accept a file without a line, or with the beginning of one, as a check leaves it that was killed.

    Raises:
        SourceNotFoundError: no such file.
        UsageError: no line of it tells a segment.
    """
    hint = "tiersnap verify --remote URI --output jsonl writes it"
    try:
        lines = file.open("rb")
    except OSError as error:
        raise SourceNotFoundError(f"{file}: {error.strerror}", hint=hint) from error
    number, line, tells = 0, b"{", False
    with lines:
        for number, line in enumerate(lines, 1):  # noqa: B007
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was killed
            if isinstance(row, dict) and row.keys() >= set(COLUMNS):
                tells = True
                yield row
    is_begun = number < 2 and line.startswith(b"{") and not line.endswith(b"\n")
    if not tells and not (may_be_empty and is_begun):
        raise UsageError(f"{file}: no line of tiersnap verify --remote", hint=hint)
