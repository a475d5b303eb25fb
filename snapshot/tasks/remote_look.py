"""What the listing and the carry ask of remote storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.replay.remote_state import RemoteState


class RemoteLook(Protocol):
    """Looks at what remote storage holds of a partition; picklable."""

    def __call__(self, partition: Partition) -> dict[str, Any]:
        """Columns of LISTED: `copies` (those that reach into the local log or are being made), `expired_to`,
        `encryption`, `encrypted_by` and `leftover_count`.

        Raises:
            TiersnapError: it cannot be known.
        """
        ...

    def find_start(self, partition: Partition, copies: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
        """A row of listed.START: of the first of these copies (rows of listed.COPY) whose snapshot starts a carry.

        Raises:
            TiersnapError: it cannot be known.
        """
        ...

    def read_start(self, partition: Partition, start: Mapping[str, Any]) -> bytes:
        """The snapshot that a row of listed.START names.

        Raises:
            TiersnapError: it is gone, or another one.
        """
        ...

    def state_at(self, partition: Partition, offset: int, *, now: int, producer_expiration: int | None) -> RemoteState:
        """The state of the log at an offset, by the rule of replay.remote_state; it may read whole remote segments.

        Raises:
            UnknownStateError: remote storage does not tell it.
            TiersnapError: it does not answer, or refuses.
        """
        ...
