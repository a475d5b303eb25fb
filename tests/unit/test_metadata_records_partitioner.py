"""Where a partition's records go: Kafka's own answers."""

from __future__ import annotations

import pytest

from tiersnap.remote_storage.metadata.metadata_records import hash_code, metadata_partition, murmur2
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition

pytestmark = pytest.mark.unit


def test_the_partition_is_the_one_kafka_takes():
    assert hash_code("lZ6vvmajTWKDBUTV6SQAtQ", 42) == -614426227 % (1 << 32)
    assert metadata_partition(TopicIdPartition("topic1", "lZ6vvmajTWKDBUTV6SQAtQ", 42), 50) == 33


# org.apache.kafka.common.utils.UtilsTest.testMurmur2
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(data, expected):
    assert murmur2(data) == expected % (1 << 32)


def test_the_name_of_the_topic_does_not_matter():
    one, other = (TopicIdPartition(name, "lZ6vvmajTWKDBUTV6SQAtQ", 7) for name in ("one", "other"))
    assert metadata_partition(one, 50) == metadata_partition(other, 50)
