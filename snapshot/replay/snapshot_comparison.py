"""Compare the entries of a snapshot file with the computed entries, producer by producer.

The existence of a file proves nothing: a broker that finds no snapshot at a clean start writes an empty one, and
brokers keep damaged old files. A missing producer is not always damage, because brokers drop idle producers. The
comparison counts every entry and uses no clock, so that a stored result stays valid. Two decisions use it:

    start     a replay starts only from a file that has all entries of the log (strictly MATCHES or EXTENDS)
    upload    a missing or different entry does no harm if a broker that loads the file now would drop the entry: it has
              no open transaction, and its timestamp is older than producer.id.expiration.ms
              (ProducerStateManager.loadFromSnapshot). A timestamp in the future counts as young. The file's
              modification time is not used, because copying a file changes it, and record timestamps may be of any
              year.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.producer_fold import NONE
from tiersnap.snapshot.regular_file import FileTooLargeError
from tiersnap.snapshot.replay.comparison import NEVER, Comparison
from tiersnap.snapshot.replay.facts import SegmentFacts
from tiersnap.snapshot.units import count_of


def computed(provenance: Provenance) -> Comparison:
    """Return the comparison for a snapshot that was computed from the log, because no usable file exists."""
    return Comparison(SnapshotVerdict.MATCHES, f"computed from the log ({provenance})")


def compare(
    found: np.ndarray,
    computed: np.ndarray,
    *,
    history_from: int,
    is_cleaned: bool = False,
) -> Comparison:
    """Compare the entries of a snapshot file with the entries of the log.

    Args:
        found: entries of the file, ENTRY_DTYPE in ascending producer id.
        computed: entries folded from the log, in the same order, without expiry.
        history_from: first offset of the log; older batches are deleted. 0 if the log is complete.
        is_cleaned: whether the log cleaner passed all batches below the file's offset, and may have removed batches
            that the file names.
    """
    in_found = np.isin(computed["producer_id"], found["producer_id"], assume_unique=True)
    in_computed = np.isin(found["producer_id"], computed["producer_id"], assume_unique=True)
    lacking, extra = computed[~in_found], found[~in_computed]
    ours, theirs = computed[in_found], found[in_computed]
    equal = ours == theirs
    explained = is_cleaned | _explains_extra(extra, history_from)
    extends = ~equal & (is_cleaned | _explains_difference(ours, theirs, history_from))
    without_coordinator_epoch = ~equal & ~extends & _forgot_marker(ours, theirs)
    differing = ~(equal | extends | without_coordinator_epoch)
    harmful = (lacking, ours[differing], theirs[differing], extra[~explained])
    counts = (lacking.size, int(differing.sum()), int(without_coordinator_epoch.sum()), int((~explained).sum()))
    extending = int(explained.sum() + extends.sum())
    if any(counts):
        strict = SnapshotVerdict.SUSPECT
    elif extending:
        strict = SnapshotVerdict.EXTENDS
    else:
        strict = SnapshotVerdict.MATCHES
    gap = f"below offset {history_from}, where this log begins"
    if is_cleaned:
        gap = "that the log cleaner removed"
    return Comparison(
        strict,
        _words(found.size, computed.size, *counts, extending, gap),
        *counts,
        extending=extending,
        harmful_until=max(_harmful_until(entries) for entries in harmful),
    )


def _harmful_until(entries: np.ndarray) -> int:
    if (entries["current_txn_first_offset"] >= 0).any():
        return NEVER
    return int(entries["timestamp"].max(initial=NONE))


def _forgot_marker(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    forgot: np.ndarray = (theirs["coordinator_epoch"] < 0) & (ours["last_offset"] >= 0)
    for name in ours.dtype.names or ():
        if name != "coordinator_epoch":
            forgot &= ours[name] == theirs[name]
    return forgot


def _explains_extra(extra: np.ndarray, history_from: int) -> np.ndarray:
    if history_from <= 0:
        return np.zeros(extra.size, np.bool_)
    before_log: np.ndarray = (extra["last_offset"] < history_from) & (extra["current_txn_first_offset"] < history_from)
    return before_log


def _explains_difference(ours: np.ndarray, theirs: np.ndarray, history_from: int) -> np.ndarray:
    """Return a mask of the pairs that are equal, or differ only because `theirs` includes batches below `history_from`.

    In such a pair, each differing field is unset in `ours`, and refers to a batch below `history_from` in `theirs`.
    """
    if history_from <= 0:
        return np.zeros(ours.size, np.bool_)
    same_batch = np.ones(ours.size, np.bool_)
    for name in ("last_offset", "last_sequence", "offset_delta"):
        same_batch &= ours[name] == theirs[name]
    older_batch = (ours["last_offset"] < 0) & (theirs["last_offset"] < history_from)
    same_transaction = ours["current_txn_first_offset"] == theirs["current_txn_first_offset"]
    older_transaction = (theirs["current_txn_first_offset"] >= 0) & (theirs["current_txn_first_offset"] < history_from)
    marker = (ours["coordinator_epoch"] == theirs["coordinator_epoch"]) | (ours["coordinator_epoch"] < 0)
    # Test the epoch, too: clients may set the timestamp -1.
    touched = (ours["timestamp"] >= 0) | (ours["producer_epoch"] >= 0)
    same_last = (ours["producer_epoch"] == theirs["producer_epoch"]) & (ours["timestamp"] == theirs["timestamp"])
    explained: np.ndarray = (same_batch | older_batch) & (same_transaction | older_transaction) & marker
    explained &= same_last | ~touched
    return explained


def _words(
    found: int,
    computed: int,
    lacking: int,
    differing: int,
    without_coordinator_epoch: int,
    unexplained: int,
    extending: int,
    gap: str,
) -> str:
    parts = []
    if lacking and not found:
        parts.append(f"the snapshot is empty, but the log has {count_of(lacking, 'producer')}")
    elif lacking:
        parts.append(f"the snapshot lacks {lacking} of {count_of(computed, 'producer')} in the log")
    if differing:
        parts.append(f"{count_of(differing, 'producer differs', 'producers differ')} from the log")
    if without_coordinator_epoch:
        producers = count_of(without_coordinator_epoch, "producer has", "producers have")
        parts.append(f"{producers} no coordinator epoch in the snapshot, although the log has one")
    if unexplained:
        parts.append(f"the snapshot has {count_of(unexplained, 'producer')} that the log does not have")
    if parts:
        return "; ".join(parts)
    if extending:
        return f"the snapshot also has {count_of(extending, 'producer')} of batches {gap}"
    return f"the snapshot equals the log: {count_of(found, 'producer')}"


ReadSnapshot = Callable[[int], bytes | None]
"""Returns the bytes of the snapshot file at an offset, or None without a file; may raise OSError."""


@dataclass(frozen=True, slots=True)
class ExaminedSegment:
    """A segment with the comparison of the snapshot at its end."""

    facts: SegmentFacts
    snapshot: Comparison  # of the file at `next_base_offset`, or of the snapshot computed in its place


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """Size and CRC of a snapshot file, or the reason why it could not be read."""

    file_bytes: Annotated[
        int | None, Meta(description="bytes of the snapshot file; null if the file does not exist or could not be read")
    ] = None
    file_crc32c: Annotated[int | None, Meta(description="CRC-32C of the whole snapshot file")] = None
    not_read: Annotated[
        str | None, Meta(description="why the snapshot file could not be read; null if it was read or does not exist")
    ] = None


NO_FILE = SnapshotFile()


@dataclass(frozen=True, slots=True, eq=False)
class FoundSnapshot:
    """The snapshot file at an offset, with its entries or the reason why it has none."""

    file: SnapshotFile
    comparison: Comparison  # the result if `entries` is None
    entries: np.ndarray | None = None  # ENTRY_DTYPE, ascending producer id; None if they cannot be read


_NOT_COMPARED = Comparison(SnapshotVerdict.UNVERIFIED, "not compared yet")


def found_at(offset: int, read_snapshot: ReadSnapshot) -> FoundSnapshot:
    """Return the entries of the file at an offset, or the comparison that reports why they cannot be read."""
    name = snapshot_file.file_name(offset)
    file = NO_FILE
    try:
        data = read_snapshot(offset)
        if data is None:
            return FoundSnapshot(file, Comparison(SnapshotVerdict.MISSING, f"no {name}"))
        file = SnapshotFile(len(data), crc32c(data))
        return FoundSnapshot(file, _NOT_COMPARED, snapshot_file.decode(data, name=name))
    except CorruptSnapshotError as error:
        return FoundSnapshot(file, Comparison(SnapshotVerdict.CORRUPT, error.message))
    except OSError as error:
        return FoundSnapshot(SnapshotFile(not_read=why_not_read(error)), _of_unread(name, error))


def why_not_read(error: OSError) -> str:
    """Return the text of the error, for the field `not_read`."""
    return error.strerror or str(error)


def _of_unread(name: str, error: OSError) -> Comparison:
    if isinstance(error, FileNotFoundError):
        return Comparison(SnapshotVerdict.MISSING, f"{name} was deleted after the listing")
    if isinstance(error, FileTooLargeError):
        return Comparison(SnapshotVerdict.CORRUPT, f"{name}: {error.strerror}")
    return Comparison(SnapshotVerdict.UNVERIFIED, f"{name}: {why_not_read(error)}")
