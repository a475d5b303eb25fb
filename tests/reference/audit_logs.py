"""Generated logs for the audit: producers as brokers let them write, and then what goes wrong with logs.

Nothing is made of bytes: a log is a list of batches. Sequences begin near the end of their circle now and then,
transactions are of both versions, some batches have no sequences, as offset commits have none, and then batches are
doubled, taken out, moved, reset, written by a zombie, cut by retention inside a segment, compacted, or lie beside
entries that nobody decodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from tests.reference.audited_log import CIRCLE, AuditedLog, sent_again
from tests.reference.log_builder import ABORT, COMMIT, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from tests.reference.record_batch import Batch

NOW = 1_795_264_000_000  # ms
EXPIRATION = 50_000  # ms
_PRODUCERS = (-1, 0, 7, 8, 9, 2**62)
_COMMITS_OFFSETS = 9


@dataclass
class _Writer:
    chance: Random
    batches: list[Batch] = field(default_factory=list)
    offset: int = 0
    time: int = NOW
    leader_epoch: int = 0
    coordinator_epoch: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)

    def add(self, producer_id: int, count: int, **header: int) -> None:
        self.time += self.chance.choice((0, 1, 10, -3, EXPIRATION))
        values = {
            "attributes": 0,
            "producer_epoch": -1,
            "base_sequence": -1,
            "record_count": count,
            "control_type": -1,
            "coordinator_epoch": -1,
            "crc": self.chance.randrange(1 << 32),
        } | header
        batch = Batch(
            position=0,
            base_offset=self.offset,
            batch_length=self.chance.randrange(60, 90),
            partition_leader_epoch=self.leader_epoch,
            magic=2,
            last_offset_delta=count - 1,
            base_timestamp=self.time,
            max_timestamp=self.time if self.chance.random() < 0.95 else -1,
            producer_id=producer_id,
            control_timestamp=-1,
            **values,
        )
        self.batches.append(batch)
        self.offset += count
        self.leader_epoch += self.chance.random() < 0.05

    def write(self) -> None:
        """A batch or a marker, as a broker takes them."""
        producer = self.chance.choice(_PRODUCERS)
        count = self.chance.randrange(1, 6)
        if producer < 0:
            self.add(-1, count)
            return
        if producer in self.opened and self.chance.random() < 0.4:
            self.end(producer)
            return
        if self.chance.random() < 0.08 and producer not in self.opened:
            self.epochs[producer] = self.epochs.get(producer, 0) + self.chance.choice((1, 2))
            self.sequences[producer] = 0
        if producer not in self.epochs:
            self.epochs[producer] = self.chance.choice((0, 0, 3))
            self.sequences[producer] = self.chance.choice((0, 0, 0, CIRCLE - 7))
        has_sequence = producer != _COMMITS_OFFSETS and self.chance.random() < 0.97
        if self.chance.random() < 0.3 or not has_sequence:
            self.opened.add(producer)
        if not has_sequence:
            epoch = self.epochs[producer]
            self.add(producer, count, attributes=TRANSACTIONAL, producer_epoch=epoch)
            return
        first = self.sequences[producer]
        self.sequences[producer] = (first + count) % CIRCLE
        self.add(
            producer,
            count,
            attributes=TRANSACTIONAL if producer in self.opened else 0,
            producer_epoch=self.epochs[producer],
            base_sequence=first,
            record_count=count if self.chance.random() < 0.95 else 0,
        )

    def end(self, producer: int) -> None:
        """Commit or abort: in the same epoch, in the next one (version 2), or over the producer's head."""
        self.opened.discard(producer)
        raised = self.chance.choice((0, 0, 1))
        self.epochs[producer] += raised
        kind = self.chance.choice((ABORT, COMMIT))
        self.coordinator_epoch += self.chance.random() < 0.2
        is_of_operator = kind == ABORT and self.chance.random() < 0.1
        self.add(
            producer,
            1,
            attributes=CONTROL | TRANSACTIONAL,
            producer_epoch=self.epochs[producer],
            control_type=kind if self.chance.random() < 0.95 else -1,
            record_count=1,
            coordinator_epoch=0 if is_of_operator else self.coordinator_epoch,
        )
        if raised:
            self.sequences[producer] = 0
            self.epochs[producer] += kind == ABORT and self.chance.random() < 0.5


def _damaged(chance: Random, batches: list[Batch]) -> list[Batch]:
    """One thing that goes wrong; offsets are given anew where a batch comes in, and stay where one goes."""
    index = chance.randrange(len(batches))
    batch = batches[index]
    later = chance.randrange(index, len(batches)) + 1
    kinds = ("double", "double run", "take out", "zombie", "reset", "jump", "swap", "split", "plain", "raise", "marker")
    what = chance.choice((*kinds, "renumber", "renumber"))
    if what == "double":
        copy = batch if chance.random() < 0.7 else replace(batch, crc=batch.crc ^ 1)
        return _insert(batches, later, [copy])
    if what == "double run":
        return _insert(batches, later, batches[index : index + 3])
    if what == "take out":
        return batches[:index] + batches[index + 1 :]
    if what == "swap":
        other = batches[later - 1]
        swapped = list(batches)
        swapped[index], swapped[later - 1] = other, batch
        return _insert(swapped, 0, [])
    if what == "marker":
        chosen = chance.choice(batches)
        changed = {
            "producer_epoch": max(0, chosen.producer_epoch - chance.choice((0, 1))),
            "coordinator_epoch": max(0, chosen.coordinator_epoch - chance.choice((0, 1, 3))),
            "control_type": chance.choice((ABORT, COMMIT)),
        }
        of_batch = {
            "attributes": CONTROL | TRANSACTIONAL,
            "base_sequence": -1,
            "last_offset_delta": 0,
            "record_count": 1,
        }
        return _insert(batches, later, [replace(chosen, **of_batch, **changed)]) if chosen.producer_id >= 0 else batches
    if batch.attributes & CONTROL or batch.producer_id < 0:
        return batches
    if what == "renumber":
        resent = batches[index : index + chance.choice((1, 3))]
        return _insert(batches, later, [_renumbered(chance, each) for each in resent])
    has_sequence = batch.base_sequence >= 0
    if what in ("reset", "jump", "split") and not has_sequence:
        return batches
    sequence = chance.choice((0, 3, 9)) if has_sequence else -1
    changed = {
        "zombie": {"producer_epoch": max(0, batch.producer_epoch - 1), "base_sequence": sequence},
        "reset": {"base_sequence": 0},
        "jump": {"base_sequence": (batch.base_sequence + chance.choice((3, -4, 1 << 30, -(1 << 30)))) % CIRCLE},
        "split": {"base_sequence": (batch.base_sequence + 1) % CIRCLE},
        "raise": {"producer_epoch": batch.producer_epoch + 1, "attributes": TRANSACTIONAL},
        "plain": {"attributes": batch.attributes ^ TRANSACTIONAL},
    }[what]
    if what in ("zombie", "split") or chance.random() < 0.5:
        return _insert(batches, later, [replace(batch, **changed)])
    return [*batches[:index], replace(batch, **changed), *batches[index + 1 :]]


def _renumbered(chance: Random, batch: Batch) -> Batch:
    """The batch as its client sends it again: in the next epoch, or as another producer; now and then it is another."""
    if batch.attributes & CONTROL or batch.producer_id < 0:
        return batch
    changed = {"producer_epoch": batch.producer_epoch + 1}
    if chance.random() < 0.5:
        changed = {"producer_id": chance.choice((8, 77)), "producer_epoch": chance.choice((0, 3))}
    if chance.random() < 0.2:
        changed["attributes"] = batch.attributes ^ chance.choice((TRANSACTIONAL, LOG_APPEND_TIME))
    if chance.random() < 0.1:
        changed["max_timestamp"] = batch.max_timestamp + 5
    again = sent_again(batch, base_sequence=chance.choice((0, 0, 5)), **changed)
    return again if chance.random() < 0.9 else replace(again, crc=again.crc ^ 1)


def _insert(batches: list[Batch], index: int, more: list[Batch]) -> list[Batch]:
    """With `more` before `index`, and every offset one after the other again, but for holes that are there."""
    steps = [0] + [
        after.base_offset - before.base_offset - before.last_offset_delta - 1 for before, after in pairwise(batches)
    ]
    queue = [*zip(batches[:index], steps, strict=False), *((each, 0) for each in more)]
    queue += zip(batches[index:], steps[index:], strict=False)
    found: list[Batch] = []
    offset = batches[0].base_offset
    for batch, step in queue:
        offset += max(step, 0)
        found.append(replace(batch, base_offset=offset))
        offset += batch.last_offset_delta + 1
    return found


def generated_log(seed: int) -> AuditedLog:
    """A log of up to 60 batches; every fourth is as a broker wrote it."""
    chance = Random(seed)
    writer = _Writer(chance, offset=chance.choice((0, 0, 0, 500)))
    for _ in range(chance.randrange(1, 50)):
        writer.write()
    batches = writer.batches
    is_compacted = chance.random() < 0.2
    if is_compacted:
        batches = [each for each in batches if chance.random() < 0.7] or batches
    for _ in range(0 if seed % 4 == 0 else chance.randrange(1, 5)):
        batches = _damaged(chance, batches) or batches
    return _in_segments(chance, batches, is_compacted=is_compacted)


def _in_segments(chance: Random, batches: list[Batch], *, is_compacted: bool) -> AuditedLog:
    segments: dict[int, list[Batch]] = {}
    sizes: dict[int, int | None] = {}
    listed: list[int] = []
    position = 0
    base: int | None = None
    for batch in batches:
        if base is None or chance.random() < 0.15:
            if base is not None and chance.random() < 0.1:
                sizes[base] = position + 70  # an old entry, or damage, at its end
            base, position = batch.base_offset, 70 if chance.random() < 0.05 else 0
            if is_compacted or chance.random() < 0.02:
                base = max(0, base - chance.choice((0, 2)))
                base = base if base not in segments and base > max(segments, default=-1) else batch.base_offset
            segments[base] = []
            listed.append(base)
        position += 70 if chance.random() < 0.02 else 0
        segments[base].append(replace(batch, position=position))
        position += 12 + batch.batch_length
        sizes[base] = position
    first, last = min(segments), batches[-1].base_offset
    start = chance.choice((first, first, first, chance.randrange(first, last + 1)))
    if chance.random() < 0.1 and len(segments) > 2:
        gone = sorted(segments)[1]  # a whole segment of old entries
        del segments[gone], sizes[gone]
        if chance.random() < 0.5:
            listed.remove(gone)
    return AuditedLog(segments, sizes, start, is_compacted, tuple(listed))
