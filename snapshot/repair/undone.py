"""What a broker will undo of a repair when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from tiersnap.snapshot.log.log_dir import Partition


def lost_index(partition: Partition) -> int | None:
    """Base offset of the first closed segment without an .index.

    The broker makes it again at its next start, and deletes every snapshot above it but the last ones as it does.
    """
    lost = (each.base_offset for each in partition.segments if each.offset_index is None and not each.is_active)
    return next(lost, None)


def undone_at_start(partition: Partition) -> Iterator[str]:
    """What to say when the next start of a broker will delete snapshots, those just written among them."""
    base_offset = lost_index(partition)
    if base_offset is not None:
        yield (
            f"{partition.name}: segment {base_offset} has no .index. At its next start the broker makes it again and "
            "deletes every snapshot above it but the last ones: start it once, stop it, then repair"
        )
