"""No record that publish writes makes less readable: held by a plain reference over thousands of seeded partitions."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.reference.random_publications import OFFSETS, Publication, publication
from tests.reference.readable import epoch_of, lost_copies_read, planned, readable_after_each
from tiersnap.remote_storage.publish.segments_to_publish import TO_PUBLISH, PublishAction

pytestmark = pytest.mark.unit


def judge(case: Publication) -> int:
    """Return the number of records that are planned; every offset that was readable must be so after each."""
    plan = planned(case)
    tables = list(readable_after_each(case, plan.records))
    for before, after in pairwise(tables):
        assert before.keys() <= after.keys()
    readable = {offset for offset in OFFSETS if (epoch_of(case, offset), offset) in tables[-1]}
    named = {each.metadata.id.segment_id for each in plan.segments if each.action is PublishAction.LOST}
    assert plan.refusal or named == lost_copies_read(case, plan.records)
    for each in plan.segments:
        held = range(max(each.metadata.start_offset, case.log_start), each.metadata.end_offset + 1)
        if each.action is PublishAction.COVERED:
            assert readable.issuperset(held), each
        if each.action in TO_PUBLISH:
            assert readable.intersection(held), "told of for nothing"
            assert readable.issuperset(held) or each.error is not None, each
    return len(plan.records)


@pytest.mark.parametrize("first", range(0, 20_000, 5_000))
def test_publish_hides_no_readable_offset(first):
    assert sum(judge(publication(seed)) for seed in range(first, first + 5_000)) > 2_500
