"""Why a boundary has no right snapshot, as far as what lies beside a log can say it.

PRE_2_8            none there, and none below: brokers before 2.8 keep those of the last two boundaries alone
GAP_AFTER_ALIGNED  none there, but one below: lost or deleted since
CORRUPT            no broker can read it
EMPTY_WRONG        it knows nobody, and the log knows somebody a broker would keep
EMPTY_TRUE         it knows nobody, and rightly so
CONTENT_DIFF       readable, contradicts the log
UNVERIFIED         there, and never compared, or not with the beginning of the log
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.formats.snapshot_file import HEADER_LENGTH
from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.replay.trust import Comparison


class SnapshotCause(StrEnum):
    """Why a boundary is worth a look."""

    PRE_2_8 = "PRE_2_8"
    GAP_AFTER_ALIGNED = "GAP_AFTER_ALIGNED"
    CORRUPT = "CORRUPT"
    EMPTY_WRONG = "EMPTY_WRONG"
    EMPTY_TRUE = "EMPTY_TRUE"
    CONTENT_DIFF = "CONTENT_DIFF"
    UNVERIFIED = "UNVERIFIED"


@dataclass(frozen=True, slots=True)
class SnapshotFound:
    """What is beside the log at a boundary.

    Attributes:
        compared: with the log; MISSING where there is no file.
        file_bytes: None if there is none, or nobody could read it.
    """

    compared: Comparison
    file_bytes: int | None

    @property
    def is_empty(self) -> bool:
        """Whether it is a snapshot of nobody."""
        is_read = self.compared.strict not in (SnapshotVerdict.MISSING, SnapshotVerdict.CORRUPT)
        return is_read and self.file_bytes == HEADER_LENGTH


def causes(
    found: Mapping[int, SnapshotFound], *, now: int, producer_expiration: int | None
) -> dict[int, SnapshotCause | None]:
    """Return the cause at each boundary, None if a right snapshot there knows somebody.

    Args:
        found: by offset, of every boundary of the log and of every other snapshot file.
        now: ms.
        producer_expiration: ms; see `Comparison.verdict`.
    """
    has_older = False
    said: dict[int, SnapshotCause | None] = {}
    for offset, each in sorted(found.items()):
        verdict = each.compared.verdict(now, producer_expiration)
        said[offset] = _cause(each, verdict, has_older=has_older)
        has_older |= verdict is not SnapshotVerdict.MISSING
    return said


def _cause(found: SnapshotFound, verdict: SnapshotVerdict, *, has_older: bool) -> SnapshotCause | None:
    if verdict is SnapshotVerdict.MISSING:
        return SnapshotCause.GAP_AFTER_ALIGNED if has_older else SnapshotCause.PRE_2_8
    if verdict is SnapshotVerdict.CORRUPT:
        return SnapshotCause.CORRUPT
    if verdict in (SnapshotVerdict.UNVERIFIED, SnapshotVerdict.NOT_COMPARED):
        return SnapshotCause.UNVERIFIED
    if found.is_empty:
        return SnapshotCause.EMPTY_TRUE if verdict.is_trusted else SnapshotCause.EMPTY_WRONG
    return None if verdict.is_trusted else SnapshotCause.CONTENT_DIFF
