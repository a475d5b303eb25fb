"""Producer snapshots in remote storage, beside what the readable fold makes of the remote logs up to each of them."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.facts import Partition
from tests.chaos.history import Event, History
from tests.chaos.rules_of_segments import is_visible
from tests.reference import fold as reference
from tests.reference.record_batch import read_segment
from tiersnap.snapshot.formats.snapshot_file import decode


def tell_snapshots(remote: Path, history: History, partition: Partition, segments: list[Event]) -> None:
    """`snapshot` of each visible segment: entries in its file, and those of the fold from the first remote offset."""
    folder = remote / "kafka-tiered-storage" / f"{partition.topic}-0-{partition.topic_id}"
    visible = sorted((each for each in segments if is_visible(each, partition)), key=lambda each: each["start"])
    state: reference.State = {}
    at = 0
    for segment in visible:
        name, end = f"{segment['start']:020d}-{segment['id']}", segment["end"] + 1
        batches = read_segment((folder / f"{name}.log").read_bytes(), segment["start"] - 1).batches
        state = reference.fold([batch for batch in batches if at <= batch.base_offset < end], state)
        at = max(at, end)
        folded = [[producer_id, *vars(entry).values()] for producer_id, entry in sorted(state.items())]
        entries = decode((folder / f"{name}.snapshot").read_bytes()).tolist()
        history.tell(
            "snapshot",
            topic=partition.topic,
            id=segment["id"],
            ours=segment["ours"],
            offset=end,
            entries=[list(entry) for entry in entries],
            # Where a copy reaches less far than one before it, the fold is of another offset.
            folded=folded if at == end else None,
        )
