"""Check by one record that a local log equals the leader's log, before its segments are published.

A clone of a log directory may have the same ids, leader epochs, offsets and sizes as the leader's log. After two logs
diverge, their records differ in timestamps, keys or values. So tiersnap compares one record (see `witness`). Callers
skip the comparison if a running broker of the cluster has locked the log directory.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.passing_errors import PASSING
from tiersnap.remote_storage.errors import (
    BrokerUnavailableError,
    ClusterRefusedError,
    DivergedLogError,
    UnprovenLogError,
)
from tiersnap.remote_storage.verify.local_log import LocalLog
from tiersnap.snapshot.log.records import LogRecord, SegmentRecords
from tiersnap.snapshot.units import utc

if TYPE_CHECKING:  # an optional dependency
    from confluent_kafka import Message

_SECONDS = 30.0
_AT_ONCE = 1.0


@dataclass(frozen=True)
class LeaderLog:
    """The leader's log of one partition."""

    cluster: Cluster
    topic: str
    partition: int

    def check_has(self, local: LocalLog, end_offset: int) -> None:
        """Raise an error if a local log may differ from the leader's log below the exclusive `end_offset`.

        Raises:
            DivergedLogError: the leader has a different record at the same offset.
            UnprovenLogError: the local log has no record to compare, or this user may not read the topic.
            BrokerUnavailableError: no broker answered in time.
        """
        name = f"{self.topic}-{self.partition}"
        (_, high_watermark), *_ = self.cluster.log_offsets([(self.topic, self.partition)]).values()
        record = witness(local, end_offset, high_watermark)
        if record is None:
            raise UnprovenLogError(
                f"{local.partition.path}: the local log has no record to compare with the leader of {name}",
                hint="run the same command again once the leader has more records",
            )
        try:
            found = self._read(record.offset)
        except ClusterRefusedError as refused:
            raise UnprovenLogError(
                f"{name}: the log {local.partition.path} cannot be compared with the leader's log: {refused.message}",
                hint="run the command on the broker's host as the broker's user, or give this user the permission to "
                f"READ {self.topic}",
            ) from refused
        if _content(found) != (record.offset, record.key, record.value) or not _is_of_time(found, record.timestamp):
            raise DivergedLogError(
                f"{local.partition.path}: the record at offset {record.offset} ({utc(record.timestamp)}) differs "
                f"from the record of the leader of {name}",
                hint="two different logs have the same topic id: run tier on the leader's log directory. If this log "
                "belongs to a clone of the cluster, give the clone another --remote",
            )

    def _read(self, offset: int) -> Message:
        from confluent_kafka import TopicPartition

        with closing(self.cluster.consumer()) as consumer:
            consumer.assign([TopicPartition(self.topic, self.partition, offset)])
            deadline = time.monotonic() + _SECONDS
            while time.monotonic() < deadline:
                for message in consumer.consume(1, _AT_ONCE):
                    error = message.error()
                    if error is None:
                        return message
                    if error.name() not in PASSING:
                        raise self.cluster.to_error(f"reading {self.topic}", error, f"READ of {self.topic}")
        raise BrokerUnavailableError(
            f"{self.cluster.bootstrap_server}: no record of {self.topic}-{self.partition} arrived within "
            f"{_SECONDS:.0f} s",
            hint="run the same command again",
        )


def witness(local: LocalLog, end_offset: int, high_watermark: int) -> LogRecord | None:
    """Return the record of a local log to compare with the leader; None if the log has no record.

    The first choice is the first record of the local segments with a base offset at or above `end_offset`. If this
    record does not exist or is not below the high watermark, return the last record below `end_offset`.
    """
    first = _first_behind(local, end_offset)
    if first is not None and first.offset < high_watermark:
        return first
    return _last_before(local, end_offset)


def _first_behind(local: LocalLog, end_offset: int) -> LogRecord | None:
    for each in local.partition.segments:
        if each.base_offset < end_offset:
            continue
        first = next(iter(SegmentRecords(local.filesystem, each, check_crc=False)), None)
        if first is not None:
            return first
    return None


def _last_before(local: LocalLog, end_offset: int) -> LogRecord | None:
    for each in reversed(local.partition.segments):
        if each.base_offset >= end_offset:
            continue
        found = None
        for record in SegmentRecords(local.filesystem, each, check_crc=False):
            if record.offset < end_offset:
                found = record
        if found is not None:
            return found
    return None


def _content(message: Message) -> tuple[int | None, bytes | None, bytes | None]:
    key, value = message.key(), message.value()
    return message.offset(), _as_bytes(key), _as_bytes(value)


def _as_bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _is_of_time(message: Message, timestamp: int) -> bool:
    """Return whether a message of the leader has this timestamp (ms).

    If the topic uses LogAppendTime, return True. A broker sets one time for a whole batch, so a different timestamp
    does not prove that the records differ.
    """
    from confluent_kafka import TIMESTAMP_CREATE_TIME

    kind, at = message.timestamp()
    return kind != TIMESTAMP_CREATE_TIME or at == timestamp
