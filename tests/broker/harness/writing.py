"""Logs worth repairing: idempotent and transactional producers, interleaved over many small segments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from confluent_kafka import KafkaError, Message, Producer

from tests.broker.harness.broker import Broker

TransactionEnd = Literal["commit", "abort", "leave"]
SECONDS = 30.0
VALUE_BYTES = 500


@dataclass(frozen=True)
class Workload:
    """Who writes: `early` of the `idempotent` producers are heard only in the first third of the segments."""

    idempotent: int = 4
    transactional: int = 2
    early: int = 1
    records: int = 10  # of each producer in each round, in one batch


@dataclass
class Written:
    """What was written and acknowledged, by kind."""

    idempotent: int = 0
    committed: int = 0
    aborted: int = 0
    errors: list[KafkaError] = field(default_factory=list)

    @property
    def records(self) -> int:
        """All data records, as read_uncommitted shows them."""
        return self.idempotent + self.committed + self.aborted


def write_segments(
    broker: Broker, topic: str, segments: int, workload: Workload | None = None, *, partition: int = 0, name: str = ""
) -> Written:
    """Write rounds of `workload` until the partition has `segments` segments, the active one included.

    Every transactional producer commits and aborts in turn. `name` tells the producers and keys of several calls
    apart. Records are stamped now, as the expiry of producers goes by record time.
    """
    load = workload or Workload()
    written = Written()
    folder = broker.disks.partition(topic, partition)
    with _producers(broker, load, written, name) as (idempotent, transactional):
        for turn in range(10_000):
            done = segment_count(folder)
            if done >= segments:
                break
            heard = idempotent if done * 3 < segments else idempotent[load.early :]
            for number, producer in enumerate(heard, len(idempotent) - len(heard)):
                _produce(producer, topic, partition, f"{name}i{number}", turn, load.records)
                written.idempotent += load.records
            for number, producer in enumerate(transactional):
                producer.begin_transaction()
                _produce(producer, topic, partition, f"{name}t{number}", turn, load.records)
                if (turn + number) % 2:
                    producer.abort_transaction(SECONDS)
                    written.aborted += load.records
                else:
                    producer.commit_transaction(SECONDS)
                    written.committed += load.records
    if written.errors:
        raise AssertionError(f"not delivered: {written.errors[0]}, and {len(written.errors) - 1} more")
    return written


@contextmanager
def transaction_around(
    broker: Broker, topic: str, *, partition: int = 0, name: str = "around", end: TransactionEnd = "commit"
) -> Iterator[Producer]:
    """One batch in a transaction that stays open while the body runs, and is then ended, or left open with "leave"."""
    written = Written()
    load = Workload(idempotent=0, transactional=1)
    with _producers(broker, load, written, f"{name}-") as (_, (producer,)):
        producer.begin_transaction()
        _produce(producer, topic, partition, name, 0, load.records)
        yield producer
        if end == "commit":
            producer.commit_transaction(SECONDS)
        elif end == "abort":
            producer.abort_transaction(SECONDS)


def segment_count(folder: Path) -> int:
    """Segments in a partition's folder, the active one included."""
    return sum(1 for _ in folder.glob("*.log"))


@contextmanager
def _producers(
    broker: Broker, load: Workload, written: Written, name: str
) -> Iterator[tuple[list[Producer], list[Producer]]]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            written.errors.append(error)

    config = {
        "bootstrap.servers": broker.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 1000,  # flush ends it: one batch a round
        "batch.num.messages": load.records,  # a batch larger than a segment is refused, in the callback only
        "on_delivery": delivered,
        "retry.backoff.ms": 20,
        "log_level": 0,
    }
    idempotent = [Producer(config) for _ in range(load.idempotent)]
    transactional = [
        Producer({**config, "transactional.id": f"{name}transactional-{number}"})
        for number in range(load.transactional)
    ]
    for producer in transactional:
        producer.init_transactions(SECONDS)
    yield idempotent, transactional
    for producer in (*idempotent, *transactional):
        producer.flush(SECONDS)


def _produce(producer: Producer, topic: str, partition: int, who: str, turn: int, records: int) -> None:
    """One batch, flushed: abort_transaction would otherwise purge it and leave nothing in the log."""
    now = time.time_ns() // 1_000_000
    for number in range(records):
        key = f"{who}-{turn}-{number}"
        value = (key * (VALUE_BYTES // len(key) + 1))[:VALUE_BYTES]
        headers: list[tuple[str, str | bytes | None]] = [("who", who.encode()), ("turn", str(turn).encode())]
        producer.produce(topic, value, key, partition=partition, timestamp=now + number, headers=headers)
    left = producer.flush(SECONDS)
    if left:
        raise AssertionError(f"{left} records of {who} not delivered within {SECONDS:.0f} s")
