"""Consumers: what each reads, with offset and leader epoch, told in batches."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.chaos.history import History

_names = itertools.count(1)
_BATCH, _POLL_SECONDS = 2000, 0.5
FROM_THE_START_AGAIN = 75.0  # seconds


class Reading:
    """One consumer on one topic from the log's start; its records are told as `read`."""

    def __init__(self, history: History, bootstrap: str, topic: str, isolation: str, phase: str) -> None:
        self.name, self.topic, self._history = f"r{next(_names)}", topic, history
        self.position = -1
        self.at_end = False
        self.is_broken = False  # the topic is gone, say
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",  # demanded, never used
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                "fetch.wait.max.ms": 200,
                "log_level": 0,
            }
        )
        history.tell("began", reading=self.name, topic=topic, isolation=isolation, phase=phase)
        self._consumer.assign([TopicPartition(topic, 0, -2)])

    def poll(self) -> int:
        """Read what comes within half a second; returns the number of records."""
        records: list[tuple[int, int, str]] = []
        try:
            messages = self._consumer.consume(_BATCH, _POLL_SECONDS)
        except KafkaException:
            self.is_broken = True
            return 0
        for message in messages:
            self._take(message, records)
        if records:
            self._history.tell("read", reading=self.name, topic=self.topic, records=records)
        return len(records)

    def _take(self, message: Message, records: list[tuple[int, int, str]]) -> None:
        error = message.error()
        if error is None:
            epoch = message.leader_epoch()
            records.append((message.offset(), -1 if epoch is None else epoch, (message.key() or b"").decode()))
            self.position, self.at_end = message.offset() + 1, False
        elif error.code() == KafkaError._PARTITION_EOF:
            self.position, self.at_end = message.offset(), True
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID):
            self.is_broken = True

    def close(self) -> None:
        self._consumer.close()


@dataclass(eq=False)
class Reader(threading.Thread):
    """Reads some topics in one isolation level until `stop`, from the start again every 75 s."""

    history: History
    bootstrap: str
    topics: tuple[str, ...]
    isolation: str
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        readings: dict[str, tuple[Reading, float]] = {}
        try:
            while not self.stop.is_set():
                for topic in self.topics:
                    reading, until = readings.pop(topic, (None, 0.0))
                    if reading is not None and (reading.is_broken or time.monotonic() > until):
                        reading.close()
                        reading = None
                    if reading is None:
                        reading = Reading(self.history, self.bootstrap, topic, self.isolation, "live")
                        until = time.monotonic() + FROM_THE_START_AGAIN
                    reading.poll()
                    readings[topic] = reading, until
        finally:
            for reading, _ in readings.values():
                reading.close()


def read_whole(
    history: History, bootstrap: str, topic: str, isolation: str, phase: str, end: int, *, seconds: float = 120.0
) -> None:
    """Read a topic from its start up to `end` (exclusive), which nobody writes to any more.

    Raises:
        AssertionError: the end was not reached in time.
    """
    reading = Reading(history, bootstrap, topic, isolation, phase)
    try:
        until = time.monotonic() + seconds
        while not (reading.at_end and reading.position >= end):
            reading.poll()
            if time.monotonic() > until:
                raise AssertionError(f"{topic}, {isolation}: read up to {reading.position} of {end} in {seconds:.0f} s")
    finally:
        reading.close()
