"""Is a snapshot that is there also right? Found entries against computed ones, producer by producer.

A broker leaves empty snapshots after a clean start without any, keeps damaged old ones that nobody reads, and drops
idle producers; so presence proves nothing and absence of a producer is not always damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tiersnap.snapshot.state.producer_state import is_expired

DEFAULT_PRODUCER_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms


class SnapshotVerdict(StrEnum):
    """What a boundary's snapshot file is worth."""

    MATCHES = "MATCHES"  # says what the log says
    EXTENDS = "EXTENDS"  # says that and more, about batches which the log no longer holds
    MISSING = "MISSING"
    CORRUPT = "CORRUPT"  # not readable as a snapshot
    SUSPECT = "SUSPECT"  # readable, contradicts the log
    UNKNOWN = "UNKNOWN"  # the log is damaged below it, nothing to compare with

    @property
    def is_trusted(self) -> bool:
        """Whether a segment may be tiered with this file."""
        return self in (SnapshotVerdict.MATCHES, SnapshotVerdict.EXTENDS)


class Provenance(StrEnum):
    """Where a snapshot's content comes from."""

    BROKER = "BROKER"
    COMPUTED = "COMPUTED"  # from offset 0, or from a trusted snapshot
    COMPUTED_FROM_LOG_START = "COMPUTED_FROM_LOG_START"  # what came before is gone, as it would be for a broker


@dataclass(frozen=True, slots=True)
class Comparison:
    """Verdict on a found snapshot; counts are producers.

    Attributes:
        lacking: in the log, not in the file, not expired.
        differing: in both with other values.
        unexplained: in the file only, although the log still holds everything they could come from.
        extending: values the log no longer holds the batches for.
        expired: in the log, not in the file, and idle for the expiration when it was written.
    """

    verdict: SnapshotVerdict
    reason: str
    lacking: int = 0
    differing: int = 0
    unexplained: int = 0
    extending: int = 0
    expired: int = 0


def compare(
    found: np.ndarray,
    computed: np.ndarray,
    *,
    history_from: int,
    written_at: int,
    is_cleaned: bool = False,
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS,
) -> Comparison:
    """Judge the entries of a snapshot file.

    Args:
        found: entries of the file, ENTRY_DTYPE in ascending producer id.
        computed: entries folded from the log, likewise, nothing expired.
        history_from: batches below this offset are gone (the log starts there); 0 = all is there.
        written_at: ms, latest time the broker can have dropped idle producers before it wrote the file.
        is_cleaned: the cleaner removed batches from below the file's offset, so a file may know any of them.
        producer_expiration: the broker's producer.id.expiration.ms, None if it never expires producers.
    """
    in_found = np.isin(computed["producer_id"], found["producer_id"], assume_unique=True)
    in_computed = np.isin(found["producer_id"], computed["producer_id"], assume_unique=True)
    missing = computed[~in_found]
    gone = int(is_expired(missing, as_of=written_at, expiration=producer_expiration).sum())
    extra = found[~in_computed]
    ours, theirs = computed[in_found], found[in_computed]
    equal = (ours == theirs) | _forgot_marker(ours, theirs, producer_expiration)
    explained = is_cleaned | _explains_extra(extra, history_from)
    extends = ~equal & (is_cleaned | _explains_difference(ours, theirs, history_from))
    lacking = missing.size - gone
    differing = int((~equal & ~extends).sum())
    unexplained = int((~explained).sum())
    extending = int(explained.sum() + extends.sum())
    if lacking or differing or unexplained:
        verdict = SnapshotVerdict.SUSPECT
    elif extending:
        verdict = SnapshotVerdict.EXTENDS
    else:
        verdict = SnapshotVerdict.MATCHES
    gap = "removed by the cleaner" if is_cleaned else f"from before offset {history_from}, where this log begins"
    reason = _reason(found.size, computed.size, lacking, differing, unexplained, extending, gap)
    return Comparison(verdict, reason, lacking, differing, unexplained, extending, gone)


def _forgot_marker(ours: np.ndarray, theirs: np.ndarray, producer_expiration: int | None) -> np.ndarray:
    """Nothing but the coordinator epoch is unset: the broker dropped the idle producer, and it came back.

    Its next marker sets the epoch again, and until then no coordinator is fenced by it: no harm comes of such a file.
    """
    forgot: np.ndarray = (theirs["coordinator_epoch"] < 0) & (ours["last_offset"] >= 0)
    for name in ours.dtype.names or ():
        if name != "coordinator_epoch":
            forgot &= ours[name] == theirs[name]
    return forgot if producer_expiration is not None else np.zeros(ours.size, np.bool_)


def _explains_extra(extra: np.ndarray, history_from: int) -> np.ndarray:
    before_log = (extra["last_offset"] < history_from) & (extra["current_txn_first_offset"] < history_from)
    return before_log if history_from > 0 else np.zeros(extra.size, np.bool_)


def _explains_difference(ours: np.ndarray, theirs: np.ndarray, history_from: int) -> np.ndarray:
    """Each field is equal, or unset with us and from before the log with them."""
    if history_from <= 0:
        return np.zeros(ours.size, np.bool_)
    same_batch = np.ones(ours.size, np.bool_)
    for name in ("last_offset", "last_sequence", "offset_delta"):
        same_batch &= ours[name] == theirs[name]
    older_batch = (ours["last_offset"] < 0) & (theirs["last_offset"] < history_from)
    same_transaction = ours["current_txn_first_offset"] == theirs["current_txn_first_offset"]
    older_transaction = (theirs["current_txn_first_offset"] >= 0) & (theirs["current_txn_first_offset"] < history_from)
    marker = (ours["coordinator_epoch"] == theirs["coordinator_epoch"]) | (ours["coordinator_epoch"] < 0)
    touched = ours["timestamp"] >= 0
    same_last = (ours["producer_epoch"] == theirs["producer_epoch"]) & (ours["timestamp"] == theirs["timestamp"])
    explained: np.ndarray = (same_batch | older_batch) & (same_transaction | older_transaction) & marker
    explained &= same_last | ~touched
    return explained


def _reason(found: int, computed: int, lacking: int, differing: int, unexplained: int, extending: int, gap: str) -> str:
    if lacking and not found:
        return f"empty, but the log holds {lacking} live producers: a clean start without snapshots writes such files"
    parts = []
    if lacking:
        parts.append(f"lacks {lacking} of {computed} producers in the log")
    if differing:
        parts.append(f"{differing} producers differ from the log")
    if unexplained:
        parts.append(f"knows {unexplained} producers that the log does not hold")
    if parts:
        return "; ".join(parts)
    if extending:
        return f"also knows {extending} producers by batches {gap}"
    return f"equals the log: {found} producers"
