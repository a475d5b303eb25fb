"""Sentences about compared snapshots and verified remote segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tiersnap.snapshot.gate.trusted import Provenance, SnapshotVerdict
from tiersnap.snapshot.report.html_parts import many, partitions_of, time
from tiersnap.snapshot.report.model import Report, SnapshotsAtEnds
from tiersnap.snapshot.report.remote_checks import RemoteChecked

_AT_END = {
    SnapshotVerdict.MATCHES: "identical to the log",
    SnapshotVerdict.EXTENDS: "agree with the log, and also have producers from before the log start",
    SnapshotVerdict.SUSPECT: "contradict the log",
    SnapshotVerdict.CORRUPT: "cannot be read",
    SnapshotVerdict.MISSING: "missing",
    SnapshotVerdict.UNVERIFIED: "not compared with the log",
}


def snapshot_counts(report: Report) -> dict[str, int]:
    """Return numbers of closed segments, largest first. Each key describes the snapshot at the segments' ends."""
    counted: Counter[str] = Counter()
    for each in report.snapshots:
        counted[_at_end(each)] += each.segments
    return dict(counted.most_common())


def _at_end(found: SnapshotsAtEnds) -> str:
    if _is_unverified(found):
        return _AT_END[SnapshotVerdict.UNVERIFIED]
    if found.provenance not in (None, Provenance.BROKER):
        return "computed by tiersnap"
    if found.compared is SnapshotVerdict.SUSPECT and found.snapshot.is_trusted:
        return "differ only in entries that a broker drops or resets when it loads the file"
    compared = found.compared or found.snapshot
    return _AT_END[compared]


def _is_unverified(found: SnapshotsAtEnds) -> bool:
    """Return whether the snapshots are brokers' snapshots that were not compared with the log."""
    if found.provenance is Provenance.BROKER:
        return found.compared is None and found.snapshot.is_trusted
    return found.provenance is Provenance.BROKER_UNVERIFIED


def remote_checked(report: Report) -> str:
    """Return a sentence about the verified remote segments, "" if no segment is in remote storage."""
    found: dict[tuple[str, int], RemoteChecked] = {}
    for each in partitions_of(report):
        if each.remote_checked:
            found[each.topic, each.partition] = each.remote_checked  # replicas have the same remote segments
    if found:
        return _checked_in_words(list(found.values()))
    total = report.cluster
    if total.tiered_segments or total.uploaded_segments or total.in_remote_segments:
        return "Remote storage has not been verified. To verify it"
    return ""


def _checked_in_words(found: Sequence[RemoteChecked]) -> str:
    segments = verified = compared = unsound = encrypted = 0
    for each in found:
        segments += each.segments
        verified += each.verified
        compared += each.compared
        unsound += each.unsound
        encrypted += each.encrypted
    unread = f"; {many(encrypted, 'encrypted segment')} could not be read" if encrypted else ""
    return (
        f"{verified:,} of {many(segments, 'remote segment')} in {many(len(found), 'partition')} were verified, the "
        f"last one at {time(max(each.last_at for each in found))}; the snapshots of {many(compared, 'segment')} were "
        f"compared with a log; {unsound:,} are not sound{unread}"
    )
