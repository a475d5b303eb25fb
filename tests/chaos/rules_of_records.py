"""What must hold of records: the anomalies that Jepsen looks for in logs, and those of deleting.

Kafka itself loses what an unclean election cuts off, so of a topic that had one less is asked: what some consumer read
under a leader epoch must stay as long as the lineage in the end has that epoch at that offset. The marker of a
transaction may be cut off while its records stay; it then ends as the producer's next one does, though a reader had it
as committed, or its producer as aborted. And a producer may send twice there what it does not know to be lost, so
duplicates are looked for in clean topics alone. Nor does a replica that is elected so know how far the log was trimmed,
if it died before it had written that to its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.facts import Facts, Partition, Reading
from tests.chaos.history import Key
from tests.chaos.violation import Violation


def lost(facts: Facts) -> Iterator[Violation]:
    """What was acknowledged, and not deleted, is read in the end."""
    for topic, partition in facts.partitions.items():
        if topic not in facts.clean:
            continue
        for committed in (False, True):
            final = facts.final(topic, committed=committed)
            if final is None:
                continue
            at = {
                (seen.key.producer, seen.key.number): seen.offset
                for seen in final.records
                if _is_of(partition, seen.key)
            }
            for (of, generation, producer, number), offset in facts.acked.items():
                if of != topic or generation != partition.generation or 0 <= offset < partition.log_start:
                    continue
                transaction = facts.transactions.get((of, generation, producer, number))
                if transaction is not None and facts.ended.get(transaction) != "committed" and committed:
                    continue
                if transaction is not None and facts.ended.get(transaction) != "committed" and offset < 0:
                    continue
                found = at.get((producer, number))
                if found is None and (offset >= 0 or partition.log_start == 0):
                    where = f"{topic}: {producer} {number}, acknowledged at {offset}"
                    yield Violation("lost", f"{where}, is not read in the end ({final.isolation})")
                elif found is not None and 0 <= offset != found:
                    yield Violation("moved", f"{topic}: {producer} {number}: acknowledged at {offset}, read at {found}")


def vanished(facts: Facts) -> Iterator[Violation]:
    """What was read once is read in the end, unless it was deleted, or cut off by an unclean election."""
    for topic, partition in facts.partitions.items():
        for committed in (False, True):
            final = facts.final(topic, committed=committed)
            if final is None:
                continue
            there = {seen.offset: seen.key for seen in final.records}
            gone: dict[int, Key] = {}
            for reading in facts.of_topic(topic, "live", "before", committed=committed):
                for offset, epoch, key in reading.records:
                    if not _is_of(partition, key) or offset < partition.log_start or there.get(offset) == key:
                        continue
                    if topic in facts.clean or partition.holds(epoch, offset):
                        gone[offset] = key
            for offset, key in gone.items():
                if committed and topic not in facts.clean and _lost_its_marker(facts, partition, offset, key):
                    continue
                now = there.get(offset)
                yield Violation(
                    "vanished", f"{topic} {offset}: {key.encode()} was read; now {now.encode() if now else None}"
                )


def inconsistent(facts: Facts) -> Iterator[Violation]:
    """An offset under a leader epoch is one record, for every reader, from local and from remote storage."""
    known: dict[tuple[str, int, int, int], Key] = {}
    for reading in facts.readings.values():
        for offset, epoch, key in reading.records:
            place = reading.topic, key.generation, epoch, offset
            before = known.setdefault(place, key)
            if before != key:
                yield Violation("inconsistent", f"{place}: {before.encode()} and {key.encode()}")


def duplicate(facts: Facts) -> Iterator[Violation]:
    """No reader gets a record twice."""
    for reading in facts.readings.values():
        if reading.topic not in facts.clean:
            continue
        seen: dict[Key, int] = {}
        for offset, _, key in reading.records:
            before = seen.setdefault(key, offset)
            if before != offset:
                yield Violation("duplicate", f"{_where(reading)}: {key.encode()} at {before} and {offset}")


def backwards(facts: Facts) -> Iterator[Violation]:
    """A reader of a clean topic goes forwards."""
    for reading in facts.readings.values():
        last: dict[int, int] = {}
        for offset, _, key in reading.records if reading.topic in facts.clean else ():
            before = last.get(key.generation, -1)
            if offset <= before:
                yield Violation("backwards", f"{_where(reading)}: {offset} behind {before}")
            last[key.generation] = offset


def never_sent(facts: Facts) -> Iterator[Violation]:
    """What is read was sent."""
    for reading in facts.readings.values():
        for offset, _, key in reading.records:
            if key.number >= facts.sent.get((reading.topic, key.generation, key.producer), 0):
                yield Violation("never sent", f"{_where(reading)}: {key.encode()} at {offset}")


def aborted(facts: Facts) -> Iterator[Violation]:
    """read_committed gives nothing of a transaction that was aborted, unless an election cut off the marker."""
    for reading in facts.readings.values():
        partition = facts.partitions.get(reading.topic)
        for offset, _, key in reading.records if reading.is_committed else ():
            if not key.transaction or facts.ended.get(key.transaction) != "aborted":
                continue
            is_unclean = partition is not None and reading.topic not in facts.clean and _is_of(partition, key)
            if not (is_unclean and partition and _lost_its_marker(facts, partition, offset, key)):
                yield Violation("aborted", f"{_where(reading)}: {key.encode()} at {offset}")


def torn(facts: Facts) -> Iterator[Violation]:
    """Of a transaction read_committed gives all that was acknowledged, or nothing, above the log start."""
    for topic, partition in facts.partitions.items():
        final = facts.final(topic, committed=True)
        if final is None or topic not in facts.clean:
            continue
        there = {(seen.key.producer, seen.key.number) for seen in final.records if _is_of(partition, seen.key)}
        began = {seen.key.transaction for seen in final.records if _is_of(partition, seen.key)}
        for (of, generation, producer, number), offset in facts.acked.items():
            transaction = facts.transactions.get((of, generation, producer, number))
            if of != topic or generation != partition.generation or offset < partition.log_start:
                continue
            if transaction in began and (producer, number) not in there:
                yield Violation("torn", f"{topic}: {transaction} without {producer} {number} at {offset}")


def came_back(facts: Facts) -> Iterator[Violation]:
    """What was of a deleted topic, or was trimmed off a clean one, is not read by who begins afterwards."""
    for reading in facts.readings.values():
        starts = [each for each in facts.trimmed if each[1] == reading.topic and each[0] < reading.at]
        newest = max((each[2] for each in facts.made if each[1] == reading.topic and each[0] < reading.at), default=0)
        for offset, _, key in reading.records:
            if key.generation < newest:
                yield Violation("came back", f"{_where(reading)}: {key.encode()} of a topic that was deleted")
            before = max((each[3] for each in starts if each[2] == key.generation), default=0)
            if offset < before and reading.topic in facts.clean:
                yield Violation("came back", f"{_where(reading)}: {offset}, and all before {before} was deleted")


def _lost_its_marker(facts: Facts, partition: Partition, offset: int, key: Key) -> bool:
    """Whether the record is there, and an election may have cut off the marker behind it.

    A producer begins its next transaction behind the marker, so where one is still there, so is the marker.
    """
    final = facts.final(partition.topic, committed=False)
    there = [seen for seen in final.records if seen.key.producer == key.producer] if final and key.transaction else []
    if not any((seen.offset, seen.key) == (offset, key) for seen in there):
        return False
    behind = [seen.offset for seen in there if seen.offset > offset and seen.key.transaction != key.transaction]
    return any(offset < start <= min(behind, default=start) for _, start in partition.epochs)


def _is_of(partition: Partition, key: Key) -> bool:
    return key.generation == partition.generation


def _where(reading: Reading) -> str:
    return f"{reading.topic}, {reading.name} ({reading.isolation}, {reading.phase})"


RULES = (lost, vanished, inconsistent, duplicate, backwards, never_sent, aborted, torn, came_back)
