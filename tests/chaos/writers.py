"""Producers: for each topic an idempotent and a transactional one, threads that tell what they were acknowledged."""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.chaos.history import History, Key

BATCH = 20
VALUE_BYTES = 500
PAUSE = 0.4  # seconds between batches, so that two processors have time for the rest
FLUSH_SECONDS = 20.0
TRANSACTION_MS = 15_000
# Batches may be stamped in the past, as by a clock that jumped; not so far that a broker forgets the producer at its
# next start (producer.id.expiration.ms, 1 d), when what is sent again would be written again: Kafka's own.
JUMPS_MS = (0, 0, 0, -60_000, -12 * 3_600_000, 40 * 60_000)
_names = itertools.count(1)
# A fatal error that comes while callbacks run is told as a SystemError.
_ENDED = (KafkaException, SystemError)
_SILENT = logging.getLogger("tests.chaos.silent")
_SILENT.propagate = False
_SILENT.addHandler(logging.NullHandler())


@dataclass(eq=False)
class Writer(threading.Thread):
    """Writes to `topic` until `stop`; rests while `pause` is set, and `resting` says that it does.

    After a fatal error, or one whose outcome is not known, it goes on as another producer, whose numbers begin at 0.
    """

    history: History
    bootstrap: str
    topic: str
    is_transactional: bool
    seed: int
    generation: int = 1
    stop: threading.Event = field(default_factory=threading.Event)
    pause: threading.Event = field(default_factory=threading.Event)
    resting: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._chance = random.Random(self.seed)

    def run(self) -> None:
        while not self.stop.is_set():
            if self.pause.is_set():
                self.resting.set()
                time.sleep(0.1)
                continue
            self.resting.clear()
            with contextlib.suppress(*_ENDED):
                _Instance(self).write()
            time.sleep(0.5)
        self.resting.set()

    def wait(self) -> bool:
        """Rest between two batches; returns whether to go on."""
        time.sleep(PAUSE * self._chance.uniform(0.5, 1.5))
        return not (self.stop.is_set() or self.pause.is_set())

    def jump(self) -> int:
        return self._chance.choice(JUMPS_MS)

    def commits(self) -> bool:
        return self._chance.random() < 0.7


class _Instance:
    """One producer, from its first batch to its end."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.name = f"{writer.topic}-{'t' if writer.is_transactional else 'i'}{next(_names)}"
        self.number = 0
        self.failed = False
        self._acked: list[tuple[int, int]] = []
        config = {
            "bootstrap.servers": writer.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.num.messages": BATCH,
            "retry.backoff.ms": 100,
            "message.timeout.ms": 14_000 if writer.is_transactional else 60_000,
            "on_delivery": self._delivered,
            "log_level": 0,
        }
        if writer.is_transactional:
            # One id for all instances: a transaction that is left open is ended by the next one.
            config |= {"transactional.id": f"{writer.topic}-{writer.seed}", "transaction.timeout.ms": TRANSACTION_MS}
        self._producer = Producer(config, logger=_SILENT)

    def write(self) -> None:
        """Until told to rest, or an error after which this producer is not to be used."""
        if self.writer.is_transactional:
            self._producer.init_transactions(FLUSH_SECONDS)
        turn = 0
        try:
            while not self.failed and self.writer.wait():
                turn += 1
                if self.writer.is_transactional:
                    self._transaction(f"{self.name}.{turn}")
                else:
                    self._batch("")
        finally:
            with contextlib.suppress(*_ENDED):
                self._producer.purge()
                self._producer.flush(1)
            self._tell_acked()

    def _transaction(self, name: str) -> None:
        end = "unknown"
        try:
            self._producer.begin_transaction()
            self._batch(name)
            if self.writer.commits() and not self.failed:
                self._producer.commit_transaction(FLUSH_SECONDS)
                end = "committed"
            else:
                self._producer.abort_transaction(FLUSH_SECONDS)
                end = "aborted"
        except _ENDED as error:
            # Aborted or not, and what of it: the next instance fences this one, and nothing is claimed.
            self.failed = True
            self.writer.history.tell("trouble", producer=self.name, error=str(error.args[0])[:300])
        finally:
            self.writer.history.tell("ended", transaction=name, end=end)

    def _batch(self, transaction: str) -> None:
        first, writer = self.number, self.writer
        numbers = range(first, first + BATCH)
        writer.history.tell(
            "sent",
            topic=writer.topic,
            generation=writer.generation,
            producer=self.name,
            numbers=[first, numbers.stop],
            transaction=transaction or None,
        )
        stamp = time.time_ns() // 1_000_000 + writer.jump()
        for number in numbers:
            key = Key(writer.generation, self.name, number, transaction).encode()
            value = (key * (VALUE_BYTES // len(key) + 1))[:VALUE_BYTES]
            self._producer.produce(writer.topic, value, key, partition=0, timestamp=stamp + number - first)
        self.number = numbers.stop
        if self._producer.flush(FLUSH_SECONDS) and writer.pause.is_set():
            self.failed = True
        self._tell_acked()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed = True
            return
        key = Key.decode(message.key().decode())
        offset = message.offset()
        self._acked.append((key.number, -1 if offset is None or offset < 0 else offset))

    def _tell_acked(self) -> None:
        if self._acked:
            acked, self._acked = self._acked, []
            writer = self.writer
            writer.history.tell(
                "acked", topic=writer.topic, generation=writer.generation, producer=self.name, records=acked
            )
