"""The proof that remote segments are right: this run read and compared every byte.

Functions that delete segments take a ReadWhole, not segment ids. Its constructor runs the check, so that no ReadWhole
exists without a check.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.snapshot.gate.remote_check import CheckDepth


class ReadWhole:
    """The full check of one partition: batches, leader epochs, indexes and snapshots of all remote segments."""

    def __init__(self, check: PartitionCheck) -> None:
        """Run the check.

        Raises:
            ValueError: the check is not of depth full, or skips segments.
            TransientError, RemoteStorageError: remote storage does not answer, or refuses a request.
        """
        if not _is_of_all(check):
            raise ValueError("only a full check of all segments proves the state")
        self._checks = {each.segment_id: each for each in check.checks() if each.segment_id}
        self._digests = dict(check.digests)

    def doubt(self, segment_id: str) -> str:
        """Return why a segment is not proven to be right; "" if all bytes were compared and are right."""
        found = self._checks.get(segment_id)
        if found is None:
            return "the segment is not complete in remote storage"
        if found.verdict.is_trusted:
            return ""
        return f"{found.verdict}: {found.reason}"

    def is_wrong(self, segment_id: str) -> bool:
        """Return whether a segment is incomplete or wrong."""
        found = self._checks.get(segment_id)
        return found is None or not found.verdict.is_sound

    def differ(self, one: str, other: str) -> bool:
        """Return whether the logs of two segments have different batches; False if a log could not be read."""
        digests = {self._digests.get(each) for each in (one, other)} - {None}
        return len(digests) > 1

    @property
    def wrong(self) -> Mapping[str, str]:
        """Return why segments are wrong, by segment id."""
        return {name: each.reason for name, each in self._checks.items() if not each.verdict.is_sound}


def _is_of_all(check: PartitionCheck) -> bool:
    is_full = check.asked.depth is CheckDepth.FULL
    return is_full and check.asked.sampled is None and not check.known
