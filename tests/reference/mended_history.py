"""What `mend` tells brokers in a seeded history: some of their segments are wrong, or lost for good."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.protocol.memory_store import MemoryStore
from tests.reference.random_publications import Publication, Record, publication
from tests.reference.remote_segments import PARTITION
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.mend.mend_plan import deletion, may_be_deleted, to_be_deleted, wrong_and_read
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tiersnap.remote_storage.publish.segments_to_publish import TO_PUBLISH, PublishPlan, SegmentToPublish, plan_segments
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.remote_storage.verify.read_whole import ReadWhole
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest, ComparedWith, RemoteCheck, RemoteVerdict

_, FINISHED, DELETING, DELETED = SegmentState


@dataclass(frozen=True)
class WrongTier:
    """A tier with wrong segments.

    Attributes:
        case: the history; `lost` lack objects.
        wrong: ids of segments that are there, can be read, and are wrong.
    """

    case: Publication
    wrong: Collection[str]

    @property
    def bad(self) -> set[str]:
        return {*self.wrong, *self.case.lost}

    def mended(self, told: Sequence[Record]) -> list[Record]:
        """Records that brokers know, and those of one run of `mend --delete-bad`."""
        return [*told, *self._mend(told)]

    def _mend(self, told: Sequence[Record]) -> list[Record]:
        cache = MetadataCache()
        for record in told:
            cache.apply(record)
        replaced = self._replaced(cache)
        index, proof = cache.index(PARTITION), ReadWhole(ModelCheck.of(set(cache.segments(PARTITION)) - self.bad))
        found = to_be_deleted(index, cache.in_state(PARTITION, DELETING), proof)
        going = [each for each in found if not may_be_deleted(index, each, self.case.log_start, proof)]
        states = ((each, state) for each in going for state in (DELETING, DELETED))
        return [
            *replaced,
            *(deletion(each, state, 9) for each, state in states if each.state is FINISHED or state is DELETED),
        ]

    def _replaced(self, cache: MetadataCache) -> list[Record]:
        """Those of one replacement after the other, as ReplaceWrong makes them; `cache` takes them."""
        records, held = list[Record](), set[str]()
        while left := wrong_and_read(cache.index(PARTITION), self.bad - held, self.case.log_start):
            new = _renamed(left[0])
            planned = [each for each in self._planned(cache, [new]) if each.metadata == new]
            if not planned or planned[0].error or planned[0].action not in TO_PUBLISH:
                held.add(left[0].id.segment_id)
                continue
            told = list(PublishPlan(PARTITION, tuple(planned), leader=1).records(broker_id=None, now=9))
            for record in told:
                cache.apply(record)
            records += told
            held.clear()
        return records

    def _planned(self, cache: MetadataCache, new: Sequence[RemoteLogSegmentMetadata]) -> Sequence[SegmentToPublish]:
        case = self.case
        try:
            return plan_segments(
                PARTITION,
                new,
                cache,
                log_start_offset=case.log_start,
                why_outside=case.why_outside,
                complete_segments=lambda ids: set(ids) - set(case.lost),
                wrong=self.bad,
            )
        except TiersnapError:
            return ()


class ModelCheck(PartitionCheck):
    """The check of a tier that has no bytes: these segments are right, and no others are complete."""

    right: Collection[str] = ()

    @classmethod
    def of(cls, right: Collection[str]) -> ModelCheck:
        check = cls(RemoteLocation(MemoryStore(), AivenLayout()), PARTITION, CheckRequest(CheckDepth.FULL, 0, None))
        check.right = right
        return check

    def checks(self) -> Iterator[RemoteCheck]:
        """A row a right segment."""
        of, verdict = self.partition, RemoteVerdict.MATCHES
        for name in self.right:
            yield RemoteCheck(
                of.topic, of.topic_id or "", of.partition, name, 0, None, 0, True, 0, 0, 0, 0,
                CheckDepth.FULL, verdict, ComparedWith.REMOTE_LOG, "", 0, None, "memory:",
            )  # fmt: skip


def wrong_tier(seed: int) -> WrongTier:
    """The case of that number."""
    case, dice = publication(seed), random.Random(f"wrong {seed}")
    theirs = [each.id.segment_id for each in case.ours]
    return WrongTier(case, {each for each in theirs if dice.random() < 0.5})


def _renamed(record: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """The segment that takes its place: the same one after each kill, for it is found in the store."""
    segment_id = record.id.segment_id[::-1].translate(str.maketrans("AQgw", "BRhx"))
    return replace(record, id=replace(record.id, segment_id=f"{segment_id[:-1]}A"))
