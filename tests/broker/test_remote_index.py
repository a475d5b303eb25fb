"""Kafka's own RemoteLogMetadataCache: the model that publish plans by is exact, and no record hides an offset.

The reference is the memory of the brokers of tests/protocol, too.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.oracle.remote_index import Table, remote_index_oracle
from tests.reference.mended_history import wrong_tier
from tests.reference.random_publications import EPOCHS, OFFSETS, publication
from tests.reference.readable import complete, planned
from tests.reference.remote_index import RemoteIndex as Reference
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState

pytestmark = pytest.mark.broker

VERSIONS = ("3.9.1", "4.1.1", CURRENT_VERSION, "4.4.0")


@pytest.mark.kafka(CURRENT_VERSION)
def test_model_finds_what_kafkas_cache_finds_after_each_record(tmp_path):
    judge(CURRENT_VERSION, 5_000, tmp_path)


@pytest.mark.nightly
@pytest.mark.kafka(*VERSIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_model_finds_what_kafkas_cache_finds_in_many_cases(version, tmp_path):
    judge(version, 20_000, tmp_path)


def judge(version: str, count: int, folder: Path) -> None:
    """Compare after each record; after each that publish plans, all that was readable is so still."""
    cases = [publication(seed) for seed in range(count)]
    plans = [planned(case).records for case in cases]
    histories = [[*case.records, *records] for case, records in zip(cases, plans, strict=True)]
    answers = remote_index_oracle(version, histories, folder, epochs=EPOCHS, offsets=OFFSETS)
    told = 0
    for case, records, said in zip(cases, histories, answers, strict=True):
        model, reference = RemoteIndex(), Reference()
        for record, cached in zip(records, said, strict=True):
            model.apply(record)
            reference.apply(record)
            assert table_of(model) == cached.found == reference.table(EPOCHS, OFFSETS), (case, record)
            highest = {epoch: reference.highest(epoch) for epoch in EPOCHS}
            assert {epoch: end for epoch, end in highest.items() if end is not None} == cached.highest, (case, record)
            assert {each.id.segment_id for each in reference.segments()} == cached.segments, (case, record)
        known = len(case.records)
        told += len(records) - known
        for before, after in pairwise([{}, *(each.found for each in said)][known:]):
            assert complete(case, before).keys() <= complete(case, after).keys(), case
    assert told > count / 2, "few records were planned"


@pytest.mark.kafka(CURRENT_VERSION)
def test_mend_hides_no_offset_from_kafkas_cache(tmp_path):
    judge_mend(CURRENT_VERSION, 400, tmp_path)


@pytest.mark.nightly
@pytest.mark.kafka("3.9.1", "4.4.0")
@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_mend_hides_no_offset_from_kafkas_cache_in_many_histories(version, tmp_path):
    judge_mend(version, 2_000, tmp_path)


def judge_mend(version: str, count: int, folder: Path) -> None:
    """Kafka reads after each record of a mend what it read before; a run that is killed anywhere is gone on with."""
    tiers = [wrong_tier(seed) for seed in range(count)]
    histories = [tier.mended(tier.case.records) for tier in tiers]
    answers = remote_index_oracle(version, histories, folder, epochs=EPOCHS, offsets=OFFSETS)
    replaced = 0
    for tier, history, said in zip(tiers, histories, answers, strict=True):
        known, gone = len(tier.case.records), set(tier.case.lost)
        for killed in range(known, len(history) + 1):
            assert tier.mended(history[:killed]) == history, (tier, killed)
        tables = [{}, *(each.found for each in said)][known:]
        for record, (before, after) in zip(history[known:], pairwise(tables), strict=True):
            if isinstance(record, SegmentUpdate) and record.state is SegmentState.DELETE_SEGMENT_STARTED:
                gone.add(record.id.segment_id)  # its objects go next
            readable = {cell for cell, copy in before.items() if cell[1] >= tier.case.log_start and copy not in gone}
            assert readable <= {cell for cell, copy in after.items() if copy not in gone}, tier
        replaced += any(isinstance(record, SegmentRecord) for record in history[known:])
    assert replaced > count / 4, "few segments were replaced"


def table_of(model: RemoteIndex) -> Table:
    """The segment id that the model finds for each (epoch, offset)."""
    return {
        (epoch, offset): found.id.segment_id
        for epoch, index in model.epochs.items()
        for first, last, found in index.read(OFFSETS.start, OFFSETS.stop - 1)
        if found is not None
        for offset in range(first, last + 1)
    }
