"""Kafka's own classes give the snapshots in tests/data: what every other test takes for the truth is the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.harness.damage import snapshots
from tests.broker.oracle.dump import dump_log
from tests.broker.oracle.fold import fold_oracle
from tests.broker.oracle.judge import entries

pytestmark = pytest.mark.broker

DATA = Path(__file__).parents[1] / "data"
LOGS = sorted(path.parent.name for path in DATA.glob("*/logs"))


@pytest.mark.nightly
@pytest.mark.kafka("4.1.1")
@pytest.mark.parametrize("name", LOGS)
def test_kafkas_classes_fold_a_bundled_log_to_the_snapshots_bundled_with_it(name, tmp_path):
    partitions = sorted(path for path in (DATA / name / "logs").iterdir() if path.is_dir())
    folded = fold_oracle(partitions, tmp_path)

    expected = {path.name: snapshots(path) for path in (DATA / name / "expected").iterdir()}
    assert expected, "nothing to compare with"
    assert {partition: found.keys() for partition, found in folded.items() if found} == {
        partition: files.keys() for partition, files in expected.items()
    }
    for partition, files in expected.items():
        for offset, data in files.items():
            assert entries(folded[partition][offset]) == entries(data), f"{partition} at {offset}"


@pytest.mark.nightly
@pytest.mark.kafka("4.1.1", "4.3.1")
@pytest.mark.parametrize("version", ["4.1.1", "4.3.1"])
def test_kafka_dump_log_prints_every_kind_of_file(version):
    folder = DATA / "kafka-4.1.1" / "logs" / "payments-0"
    words = {
        ".log": "Log starting offset: 0",
        ".index": "position: ",
        ".timeindex": "timestamp: ",
        ".txnindex": "lastStableOffset: ",
        ".snapshot": "currentTxnFirstOffset: ",
    }
    files = [min(folder.glob(f"*{suffix}")) for suffix in words]

    parts = dump_log(files, version=version).split("Dumping ")[1:]

    assert [part.splitlines()[0] for part in parts] == [str(path) for path in files]
    for part, word in zip(parts, words.values(), strict=True):
        assert word in part.splitlines()[1]
