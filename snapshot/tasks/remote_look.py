"""What the listing asks of remote storage."""

from __future__ import annotations

from typing import Any, Protocol

from tiersnap.snapshot.log.log_dir import Partition


class RemoteLook(Protocol):
    """Looks at what remote storage holds of a partition; picklable."""

    def __call__(self, partition: Partition) -> list[dict[str, Any]]:
        """Rows of listed.COPY: complete copies that reach into the local log, and those that others are making now.

        Raises:
            TiersnapError: it cannot be known.
        """
        ...
