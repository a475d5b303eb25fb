"""What a broker will undo of a repair when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from tiersnap.snapshot.log.log_dir import Partition


def undone_at_start(partition: Partition) -> Iterator[str]:
    """What to say when the next start of a broker will delete snapshots, those just written among them."""
    for segment in partition.segments:
        if segment.offset_index is None and not segment.is_active:
            yield (
                f"{partition.name}: segment {segment.base_offset} has no .index. At its next start the broker makes it "
                "again and deletes every snapshot above it but the last ones: start it once, stop it, then repair"
            )
            return
