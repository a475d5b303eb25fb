"""The proof that remote segments are right: they were read whole in this run.

Commands that delete take this type, not segment ids. Its constructor runs the check, so nothing else can claim a proof.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.snapshot.gate.remote_check import CheckDepth


class ReadWhole:
    """The remote segments of one partition, read whole and compared: batches, leader epochs, indexes, snapshots."""

    def __init__(self, check: PartitionCheck) -> None:
        """Read the partition.

        Raises:
            ValueError: the check would leave something out.
            TransientError, RemoteStorageError: remote storage does not answer, or refuses.
        """
        if not _is_of_all(check):
            raise ValueError("only a full check of all segments is a proof")
        self._checks = {each.segment_id: each for each in check.checks() if each.segment_id}
        self._digests = dict(check.digests)

    def doubt(self, segment_id: str) -> str:
        """Return why a segment is not proven; "" if all its bytes were read and compared, and are right."""
        found = self._checks.get(segment_id)
        if found is None:
            return "it is not complete in remote storage"
        return "" if found.verdict.is_trusted else f"{found.verdict}: {found.reason}"

    def is_wrong(self, segment_id: str) -> bool:
        """Return whether a segment lacks objects, or something is wrong with it."""
        found = self._checks.get(segment_id)
        return found is None or not found.verdict.is_sound

    def differ(self, one: str, other: str) -> bool:
        """Return whether two logs hold other batches; False if either could not be read."""
        digests = {self._digests.get(each) for each in (one, other)} - {None}
        return len(digests) > 1

    @property
    def wrong(self) -> Mapping[str, str]:
        """Return why segments are wrong, by segment id."""
        return {name: each.reason for name, each in self._checks.items() if not each.verdict.is_sound}


def _is_of_all(check: PartitionCheck) -> bool:
    is_full = check.asked.depth is CheckDepth.FULL
    return is_full and check.asked.sampled is None and not check.known
