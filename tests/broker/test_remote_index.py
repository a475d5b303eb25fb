"""Kafka's own RemoteLogMetadataCache: the model that publish plans by is exact, and no record hides an offset.

The reference is the memory of the brokers of tests/protocol, too.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.broker.harness.scenarios import CURRENT_VERSION
from tests.broker.oracle.remote_index import Table, remote_index_oracle
from tests.reference.random_publications import EPOCHS, OFFSETS, publication
from tests.reference.readable import complete, planned
from tests.reference.remote_index import RemoteIndex as Reference
from tiersnap.remote_storage.metadata.remote_index import RemoteIndex

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


def table_of(model: RemoteIndex) -> Table:
    """The segment id that the model finds for each (epoch, offset)."""
    return {
        (epoch, offset): found.id.segment_id
        for epoch, index in model.epochs.items()
        for first, last, found in index.read(OFFSETS.start, OFFSETS.stop - 1)
        if found is not None
        for offset in range(first, last + 1)
    }
