"""Doubt whether remote storage is that of the brokers: a log begins there, and nothing of any log is there.

A log alone of which nothing is there may have an old checkpoint: something of any other proves the contrary.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.errors import TiersnapError, UnknownStateError
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.remote_listing import RemoteListing
from tiersnap.snapshot.replay.remote_state import ELSEWHERE


def lacks_beginning(partition: Partition, remote: RemoteListing) -> bool | None:
    """Return whether nothing is there of a log that begins in remote storage; None if a look tells nothing."""
    if remote.copies or remote.expired_to is not None:
        return False
    return True if partition.begins_in_remote_storage and partition.log_start_is_known else None


def place_error(name: str, place: str) -> TiersnapError:
    """Return the error of a doubt; `name` is that of a partition, `place` the URI of remote storage."""
    said = f"{name}: its log begins in remote storage, and nothing of it is at {place}"
    return UnknownStateError(said, hint=ELSEWHERE)


@dataclass
class PlaceDoubt:
    """What the looks at partitions of one host come to."""

    _name: str = ""
    _is_refuted: bool = False

    def take(self, partition: Partition, remote: RemoteListing) -> None:
        """Take in one look."""
        lacks = lacks_beginning(partition, remote)
        self._is_refuted |= lacks is False
        if lacks and not self._name:
            self._name = partition.name

    def errors(self, place: str) -> tuple[TiersnapError, ...]:
        """Return the doubt, if there is one; `place` is the URI of remote storage."""
        return (place_error(self._name, place),) if self._name and not self._is_refuted else ()
