"""What brokers and tools said about remote segments in `__remote_log_metadata`, as far as the tests need it.

    value: frame version 1 (varint) | apiKey (varint) | message version 0 (varint) | message

apiKey 0 is a whole record, published as COPY_SEGMENT_STARTED; apiKey 1 an update, whose last field is the state (int8)
before an empty tag section.
"""

from __future__ import annotations

from collections import Counter

from tests.broker.harness.broker import Broker
from tests.broker.harness.reading import read_all

TOPIC = "__remote_log_metadata"
STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")


def metadata_values(broker: Broker) -> list[bytes]:
    """Every record of the topic, by partition and offset."""
    partitions = broker.tier.metadata_partitions if broker.tier else 0
    return [
        record.value or b""
        for partition in range(partitions)
        for record in read_all(broker, TOPIC, partition=partition)
    ]


def states(broker: Broker, topic: str) -> Counter[str]:
    """How many records of each state there are for `topic` (all its partitions), by the state's name.

    A segment that was tiered has one STARTED and one FINISHED; an attempt that failed a STARTED that stays.
    """
    found: Counter[str] = Counter()
    for value in metadata_values(broker):
        if bytes([len(topic) + 1]) + topic.encode() in value:
            found[STATES[0 if value[1] == 0 else value[-2]]] += 1
    return found
