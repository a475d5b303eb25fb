"""Summary of the table `remote_checks`: number, time and depth of the verified remote segments of each partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tiersnap.snapshot.errors import SourceNotFoundError, UsageError
from tiersnap.snapshot.gate.remote_check import NO_LOG, RemoteCheck, RemoteVerdict
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.report.run_info import Size
from tiersnap.snapshot.units import count_of, human_bytes, utc

Key = tuple[str, str | None, int]  # topic, topic id, partition


@dataclass(frozen=True, kw_only=True)
class RemoteChecked:
    """The verified remote segments of a partition.

    Attributes:
        segments: number of remote segments in the newest listing.
        verified, bytes: number of verified segments, and the size of their objects.
        encrypted: number of complete segments that are encrypted and could not be read.
        compared: number of verified segments whose snapshot was compared with a log.
        unsound: number of segments that are SUSPECT, CORRUPT, MISSING or UNVERIFIED.
        depths: number of verified segments by depth.
    """

    segments: Size
    verified: Size
    bytes: Size
    compared: Size
    encrypted: Size
    unsound: Size
    depths: Mapping[str, Size]
    last_at: Annotated[int, Meta(description="ms")]

    @property
    def sentence(self) -> str:
        """Return the numbers as a sentence."""
        of = count_of(self.segments, "remote segment was", "remote segments were")
        encrypted = f"{count_of(self.encrypted, 'encrypted segment was', 'encrypted segments were')} not read"
        if not self.verified and self.encrypted and not self.unsound:
            return f"0 of {of} verified; the last check was {utc(self.last_at)}; {encrypted}"
        how = ", ".join(f"{count} at depth {depth}" for depth, count in sorted(self.depths.items()))
        sentence = (
            f"{self.verified} of {of} verified ({human_bytes(self.bytes)}; {how}), the last segment at "
            f"{utc(self.last_at)}; the snapshots of {count_of(self.compared, 'segment')} were compared with a log; "
            f"{self._soundness}"
        )
        if not self.encrypted:
            return sentence
        return f"{sentence}; {encrypted}"

    @property
    def _soundness(self) -> str:
        if not self.unsound:
            return "all are sound"
        return f"{count_of(self.unsound, 'is', 'are')} not sound"


def remote_checked(checks: Iterable[RemoteCheck]) -> dict[Key, RemoteChecked]:
    """Summarise checks by partition.

    The latest check of each segment is used, unless retention deleted the segment after the check. A check of missing
    offsets is used only if its partition has no later check.
    """
    newest: defaultdict[Key, dict[str | int, RemoteCheck]] = defaultdict(dict)
    for check in checks:
        of_partition = newest[check.topic, check.topic_id, check.partition]
        name = check.segment_id or check.base_offset
        if of_partition.get(name, check).checked_at <= check.checked_at:
            of_partition[name] = check
    return {key: _summed(list(found.values())) for key, found in newest.items()}


def _summed(checks: list[RemoteCheck]) -> RemoteChecked:
    last_at = max(each.checked_at for each in checks)
    # If a check could not list the partition, `listed` is 0. An earlier listing is used in that case.
    listing = max(checks, key=lambda each: (each.listed > 0, each.checked_at))
    segments: list[RemoteCheck] = []
    encrypted = size = compared = 0
    depths: Counter[str] = Counter()
    for each in checks:
        if not _exists(each, listing.listed_from):
            continue
        if each.verdict == RemoteVerdict.NOT_CHECKABLE:
            encrypted += 1
            continue
        segments.append(each)
        size += each.bytes
        compared += each.compared_with not in NO_LOG
        depths[str(each.depth)] += 1
    return RemoteChecked(
        segments=listing.listed,
        verified=min(len(segments), listing.listed),
        bytes=size,
        compared=compared,
        encrypted=encrypted,
        unsound=_count_unsound([*segments, *_holes(checks, last_at)]),
        depths=dict(depths),
        last_at=last_at,
    )


def _count_unsound(checks: Iterable[RemoteCheck]) -> int:
    return sum(not each.verdict.is_sound for each in checks)


def _holes(checks: Iterable[RemoteCheck], last_at: int) -> list[RemoteCheck]:
    """Return the checks about missing offsets that were made at `last_at`, the time of the newest check."""
    return [each for each in checks if not each.segment_id and each.checked_at == last_at]


def _exists(check: RemoteCheck, listed_from: int) -> bool:
    """Return whether the check is of a remote segment that retention has not deleted since the check."""
    is_segment = bool(check.segment_id) and check.verdict != RemoteVerdict.GONE
    return is_segment and check.base_offset >= listed_from


def read_lines(file: Path, *, may_be_empty: bool = False) -> Iterator[RemoteCheck]:
    """Yield the checks in a file that `tiersnap verify --remote --output jsonl` wrote. Other lines are skipped.

    Args:
        may_be_empty: whether to accept a file without a complete line. A killed `verify` leaves such a file.

    Raises:
        SourceNotFoundError: the file cannot be opened.
        UsageError: no line is a check.
    """
    hint = "tiersnap verify --remote URI --output jsonl > FILE"
    try:
        lines = file.open("rb")
    except OSError as error:
        raise SourceNotFoundError(f"{file}: {error.strerror}", hint=hint) from error
    number, line, tells, decode = 0, b"{", False, decoder(RemoteCheck).decode
    with lines:
        for number, line in enumerate(lines, 1):  # noqa: B007
            try:
                check = decode(line)
            except (msgspec.DecodeError, ValueError):
                continue  # another kind of line, or the last line of a killed `verify`
            tells = True
            yield check
    is_begun = number < 2 and line.startswith(b"{") and not line.endswith(b"\n")
    if not tells and not (may_be_empty and is_begun):
        raise UsageError(f"{file}: the file has no line of tiersnap verify --remote", hint=hint)
