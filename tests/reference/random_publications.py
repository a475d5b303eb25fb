"""Random partitions to publish to: records that brokers took, copies that are lost, and segments of ours; seeded.

A log with up to three leader epochs, and one that parted from it in an unclean election. Brokers copied segments of
both, finished and deleted some, now and then one twice. Few offsets, so that everything overlaps.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tests.reference.remote_segments import remote_segment
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    end_offset_for,
    outside_lineage,
)

OFFSETS, EPOCHS = range(12), range(5)
STARTED, FINISHED, DELETING, DELETED = SegmentState
_STEPS = [[], [FINISHED], [FINISHED], [FINISHED], [FINISHED, FINISHED], [FINISHED, DELETING], [DELETING, DELETED]]
Lineage = Sequence[tuple[int, int]]
Record = SegmentRecord | SegmentUpdate


@dataclass(frozen=True)
class Publication:
    """What `publish` finds.

    Attributes:
        records: that brokers have taken, in their order.
        lost: segment ids whose objects are not complete.
        ours: finished segments in remote storage, ascending, those that brokers know included.
        lineage: (epoch, start offset) of the leader.
    """

    records: Sequence[Record]
    lost: Collection[str]
    ours: Sequence[RemoteLogSegmentMetadata]
    lineage: Lineage
    log_start: int

    def why_outside(self, segment: RemoteLogSegmentMetadata) -> str:
        """See plan_segments: by the rule that Kafka's brokers have."""
        answers = end_offset_for(self.lineage, OFFSETS.stop)
        return outside_lineage(segment, answers, log_start_offset=self.log_start)


def publication(seed: int) -> Publication:
    """The case of that number."""
    dice = random.Random(seed)
    lineage, other = _lineages(dice)
    theirs = [_segment(dice, lineage if dice.random() < 0.75 else other) for _ in range(dice.randint(0, 5))]
    new = [_segment(dice, lineage if dice.random() < 0.9 else other) for _ in range(dice.randint(0, 3))]
    begun = [each for each in new if dice.random() < 0.2]
    lost = {each.id.segment_id for each in theirs if dice.random() < 0.3}
    there = [*new, *(each for each in theirs if each.id.segment_id not in lost)]
    return Publication(
        _records(dice, [*((each, dice.choice(_STEPS)) for each in theirs), *((each, []) for each in begun)]),
        lost,
        sorted(there, key=lambda each: each.start_offset),
        lineage,
        dice.choice([0, 0, 0, 3, 6]),
    )


def _lineages(dice: random.Random) -> tuple[Lineage, Lineage]:
    """Of the leader, and of a replica that had some of its epochs and went on in one of them, or in its own."""
    starts = [0, *sorted(dice.sample(OFFSETS[1:], dice.randint(0, 2)))]
    lineage = list(enumerate(starts))
    shared = dice.randint(1, len(lineage))
    parted = dice.randint(lineage[shared - 1][1] + 1, OFFSETS.stop)
    return lineage, [*lineage[:shared], *([(4, parted)] if dice.random() < 0.5 else [])]


def _segment(dice: random.Random, lineage: Lineage) -> RemoteLogSegmentMetadata:
    start, end = sorted((dice.choice(OFFSETS), dice.choice(OFFSETS)))
    inside = [(epoch, max(first, start)) for epoch, first in lineage if first <= end]
    reached = [entry for entry, after in zip(inside, [*inside[1:], (0, end + 1)], strict=True) if entry[1] < after[1]]
    made = remote_segment(start, end, reached)
    segment_id = base64.urlsafe_b64encode(dice.randbytes(16)).decode().rstrip("=")
    return replace(made, id=replace(made.id, segment_id=segment_id))


def _records(
    dice: random.Random, steps: Sequence[tuple[RemoteLogSegmentMetadata, Sequence[SegmentState]]]
) -> list[Record]:
    """Each segment's records, those of several mixed; now and then one that brokers drop."""
    waiting = [
        [SegmentRecord(replace(each, state=STARTED)), *(SegmentUpdate(each.id, 1, 8, state) for state in states)]
        for each, states in steps
    ]
    for queue in waiting:
        if dice.random() < 0.1:
            dice.shuffle(queue)
        if dice.random() < 0.1:
            queue.append(queue[0])
    mixed = []
    while waiting:
        queue = dice.choice(waiting)
        mixed.append(queue.pop(0))
        waiting = [each for each in waiting if each]
    return mixed
