"""Which objects of a partition ended attempts of ours left; pure."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory
from tiersnap.remote_storage.inventory.remote_segment import IncompleteSegment, RemoteSegment


@dataclass(frozen=True, slots=True)
class ExpiredOffsets:
    """Below what nobody misses a segment of ours that lost an object: it can neither be read nor made whole.

    Attributes:
        log_start_offset: where the log begins in remote storage.
        written_before: ms, by the store's clock; what was last written so long ago has passed its retention.
    """

    log_start_offset: int = 0
    written_before: int = 0


NOTHING_EXPIRED = ExpiredOffsets()


def leftovers_of(
    found: RemoteInventory, expired: ExpiredOffsets = NOTHING_EXPIRED
) -> list[RemoteSegment | IncompleteSegment]:
    """Return what of a partition is ours and needed by nobody, once it is old; no request.

    That are remote segments that another attempt has finished without, and objects that are no complete remote segment:
    of attempts that another one took over, that ended or that did not finish, and of any of ours that expired.
    """
    left = (each for each in found.leftovers if _is_over(each, expired))
    return [*found.superseded, *(each for each in left if each not in found.superseded)]


def _is_over(left: IncompleteSegment, expired: ExpiredOffsets) -> bool:
    if left.claim is None:
        return False
    has_expired = left.start_offset < expired.log_start_offset or left.written_at <= expired.written_before
    return has_expired or left.claim.finished != left.segment_id
