"""The audit of one partition's batches in plain Python, one batch after the other: slow, readable, without Spark.

Judgements are asked of the pure functions of `models`, which have tests of their own; everything before that shares no
code with `snapshot`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.reference.audited_log import (
    CIRCLE,
    AuditedLog,
    aborted,
    holes,
    is_data,
    is_marker,
    last_offset,
    last_sequence,
    records_crc,
)
from tests.reference.log_builder import ABORT, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from tests.reference.lost_producer import Evidence, judge_lost_producer
from tests.reference.record_batch import Batch
from tiersnap.snapshot.exactly_once.models.audit_rules import FORGOTTEN, JUDGEMENTS, MISSING, RULE, AuditKind, harm_of


@dataclass
class Epoch:
    """What a producer wrote in one epoch; places are sequences laid out on a line."""

    expected: int
    place_end: int
    part_end: int
    frontier: int
    lowest: int
    has_hole: bool = False
    written: list[tuple[int, Batch]] = field(default_factory=list)
    is_double: bool = False  # the last batch was read, and some of its sequences before it


@dataclass
class Producer:
    epochs: dict[int, Epoch] = field(default_factory=dict)
    data: list[Batch] = field(default_factory=list)
    clients: list[Batch] = field(default_factory=list)  # also those without sequences
    markers: list[Batch] = field(default_factory=list)
    seen: Batch | None = None
    opened: Batch | None = None
    last_of_transaction: Batch | None = None
    undecided: list[Batch] = field(default_factory=list)  # of transactions, since any control batch
    timed: dict[int, Batch] = field(default_factory=dict)  # by segment without a producer id, else under -1


class Audit:
    """Walks a log and keeps findings as dicts with the columns of AUDIT_FINDINGS that say something."""

    def __init__(self, log: AuditedLog, expiration: int | None) -> None:
        self.log, self.expiration = log, expiration
        self.holes, self.aborted = holes(log), aborted(log)
        self.producers: dict[int, Producer] = {}
        self.findings: list[dict[str, Any]] = []
        self.steps_back: list[tuple[int, int, int, int, int]] = []
        self.places = {batch.base_offset: (base, batch) for base, batches in log.segments.items() for batch in batches}

    def run(self) -> list[dict[str, Any]]:
        for start, end, _ in self.holes:
            between = {"before_last_offset": start - 1, "first_offset": end, "distance": end - start}
            self.missing(AuditKind.OFFSET_GAP, between, Evidence(end - 1, self.log.log_start_offset, 1 << 62))
        for base in sorted(self.log.segments):
            for batch in self.log.segments[base]:
                self.look(base, batch)
        for number, producer in self.producers.items():
            if producer.opened is not None:
                self.add(
                    AuditKind.OPEN_TRANSACTION,
                    "",
                    producer_id=number,
                    producer_epoch=producer.last_of_transaction.producer_epoch,
                    first_offset=producer.opened.base_offset,
                    last_offset=last_offset(producer.last_of_transaction),
                )
        if self.steps_back:
            distance, first, last, before, number = max(self.steps_back)
            self.add(
                AuditKind.OUT_OF_ORDER_TIMESTAMPS,
                "",
                producer_id=number,
                before_last_offset=before,
                first_offset=first,
                last_offset=last,
                distance=distance,
                batches=len(self.steps_back),
            )
        self.renumbered()
        return self.findings

    def renumbered(self) -> None:
        """Records that are there under another producer id or epoch before."""
        alike: dict[tuple[Any, ...], list[Batch]] = defaultdict(list)
        numbers: dict[int, int] = {}
        counts: Counter[tuple[int, int]] = Counter()
        for batch in self.log.batches:
            if is_data(batch):
                counts[_writer(batch)] += 1
                numbers[batch.base_offset] = counts[_writer(batch)]
                if batch.record_count:
                    alike[_looks(batch)].append(batch)
        for batches in alike.values():
            if len(set(map(_writer, batches))) == 1:
                continue  # which most are, and a CRC costs time here
            for index, batch in enumerate(batches):
                same = [each for each in batches[:index] if records_crc(each) == records_crc(batch)]
                original = next(filter(self.is_read, same), same[0] if same else batch)
                if _writer(original) == _writer(batch):
                    continue
                left = counts[_writer(original)] - numbers[original.base_offset]
                in_flight = not (batch.attributes | original.attributes) & TRANSACTIONAL
                in_flight &= left < 5 and numbers[batch.base_offset] <= 5
                is_next = batch.producer_id == original.producer_id and batch.producer_epoch > original.producer_epoch
                is_sure = in_flight and (
                    is_next or (batch.producer_id != original.producer_id and batch.record_count > 1)
                )
                is_likely = in_flight and batch.producer_id != original.producer_id
                confidence = "HIGH" if is_sure else "MEDIUM" if is_likely or batch.record_count > 1 else "LOW"
                hidden = batch.base_offset in self.aborted or not self.is_read(original) or confidence == "LOW"
                said = self.of(batch) | self.of(original, "before_") | {"before_producer_id": original.producer_id}
                self.add(AuditKind.DUPLICATE_RENUMBERED, "", batch, is_hidden=hidden, confidence=confidence, **said)

    def look(self, segment: int, batch: Batch) -> None:
        producer = self.producers.setdefault(batch.producer_id, Producer())
        is_of_client = not batch.attributes & CONTROL
        if is_of_client and batch.max_timestamp >= 0:
            lane = -1 if batch.producer_id >= 0 else segment
            before = producer.timed.get(lane)
            if before is not None and before.max_timestamp > batch.max_timestamp:
                back = before.max_timestamp - batch.max_timestamp
                place = (batch.base_offset, last_offset(batch), last_offset(before), batch.producer_id)
                self.steps_back.append((back, *place))
            producer.timed[lane] = batch
        if not is_of_client:
            producer.undecided = []
        if batch.producer_id < 0 or not (is_of_client or is_marker(batch)):
            return
        if is_of_client:
            self.epochs(producer, batch)
        if is_data(batch):
            self.transactions(producer, batch)
            self.sequences(producer, batch)
            producer.data.append(batch)
            if batch.attributes & TRANSACTIONAL:
                producer.undecided.append(batch)
        if is_marker(batch):
            self.marker(producer, batch)
            producer.markers.append(batch)
            producer.opened = None
        elif batch.attributes & TRANSACTIONAL:
            producer.opened = producer.opened or batch
            producer.last_of_transaction = batch
        if is_of_client:
            producer.clients.append(batch)
        producer.seen = batch

    def epochs(self, producer: Producer, batch: Batch) -> None:
        highest = max((each.producer_epoch for each in producer.clients), default=None)
        marked = max((each.producer_epoch for each in producer.markers), default=None)
        if marked is not None and batch.producer_epoch < marked:
            self.forgotten(AuditKind.ZOMBIE_WRITE, producer, batch, self.of_marker(producer))
        elif highest is not None and batch.producer_epoch < highest:
            alike = producer.data if is_data(batch) else producer.clients
            before = self.of(alike[-1], "before_") if alike else {}
            self.forgotten(AuditKind.EPOCH_REGRESSION, producer, batch, before | {"before_epoch": highest})

    def marker(self, producer: Producer, batch: Batch) -> None:
        coordinators = [each.coordinator_epoch for each in producer.markers]
        is_of_operator = producer.opened is not None and batch.control_type == ABORT and batch.coordinator_epoch <= 0
        if producer.seen is not None and batch.producer_epoch < producer.seen.producer_epoch:
            before = producer.seen
        elif coordinators and batch.coordinator_epoch < max(coordinators) and not is_of_operator:
            (*_, before) = (each for each in producer.markers if each.coordinator_epoch == max(coordinators))
        else:
            return
        said = {
            "before_epoch": before.producer_epoch,
            "before_first_offset": before.base_offset,
            "before_last_offset": last_offset(before),
        }
        evidence = last_offset(before)
        self.forgotten(AuditKind.ZOMBIE_MARKER, producer, batch, said, is_hidden=False, evidence=evidence)

    def transactions(self, producer: Producer, batch: Batch) -> None:
        if not batch.attributes & TRANSACTIONAL and producer.opened is not None:
            before = self.of(producer.data[-1], "before_") if producer.data else {}
            self.add(AuditKind.NON_TRANSACTIONAL_IN_TRANSACTION, "", batch, **self.of(batch), **before)
        self.raised(producer, batch)
        last = producer.markers[-1] if producer.markers else None
        is_next = last is not None and producer.seen is last and last.control_type == ABORT and bool(producer.data)
        highest = max((each.producer_epoch for each in producer.clients), default=-1)
        if is_next and highest < last.producer_epoch < batch.producer_epoch:
            self.add(AuditKind.FENCED, "", batch, **self.of(batch), **self.of_marker(producer))

    def raised(self, producer: Producer, batch: Batch) -> None:
        """A batch of a higher epoch than any before it, in a transaction that no marker can have ended."""
        sent = [each for each in producer.data if each.attributes & TRANSACTIONAL]
        if not producer.undecided or not batch.attributes & TRANSACTIONAL or self.log.is_compacted:
            return
        before = producer.undecided[-1]
        start = last_offset(before) + 1
        is_whole = not any(hole < batch.base_offset and end > start for hole, end, _ in self.holes)
        if (
            is_whole
            and start > self.log.log_start_offset
            and batch.producer_epoch > max(each.producer_epoch for each in sent)
        ):
            hidden = batch.base_offset in self.aborted
            said = self.of(batch) | self.of(before, "before_")
            self.add(AuditKind.EPOCH_RAISED_IN_TRANSACTION, "", batch, is_hidden=hidden, **said)

    def sequences(self, producer: Producer, batch: Batch) -> None:
        length, log = batch.last_offset_delta + 1, self.log
        before = producer.data[-1] if producer.data else None
        epoch = producer.epochs.get(batch.producer_epoch)
        if epoch is None:
            producer.epochs[batch.producer_epoch] = Epoch(
                (batch.base_sequence + length) % CIRCLE, length, length, length, 0, written=[(0, batch)]
            )
            if batch.base_sequence == 0 or log.is_compacted:
                return
            if before is None:
                if log.log_start_offset == 0:
                    evidence = Evidence(log.log_start_offset, log.log_start_offset, 1 << 62)
                    said = self.of(batch) | {"distance": batch.base_sequence}
                    self.missing(AuditKind.FIRST_WRITE_LOST, said, evidence, batch)
            elif batch.producer_epoch > max(each.producer_epoch for each in producer.clients):
                self.between(AuditKind.BUMP_NONZERO, before, batch, batch.base_sequence)
            return
        step = (batch.base_sequence - epoch.expected) % CIRCLE
        step -= CIRCLE if step >= CIRCLE // 2 else 0
        place = epoch.place_end + step
        place_end = place + length
        begins_anew = batch.base_sequence == 0 and step != 0
        if begins_anew:
            epoch.part_end = -CIRCLE * CIRCLE  # nothing was reached since
        copies = [
            each
            for _, each in epoch.written
            if (each.base_sequence, each.last_offset_delta) == (batch.base_sequence, batch.last_offset_delta)
        ]
        says = not (log.is_compacted and step >= 0)
        may_be_read, was_read = self.overlap(epoch, place, place_end)
        is_double = was_read and self.is_read(batch)
        fits = not step or place == epoch.frontier
        overlaps = place < epoch.frontier and place_end > epoch.lowest and not epoch.has_hole
        back = self.of(before, "before_") | {"distance": epoch.frontier - place}
        hidden = batch.base_offset in self.aborted or not may_be_read
        if place < epoch.frontier and copies:
            read = [each for each in copies if self.is_read(each)]
            copy = (read or copies)[-1]
            is_hidden = batch.base_offset in self.aborted or not (read or was_read)
            more = self.of(copy, "before_") | {"distance": epoch.frontier - place, "is_same": copy.crc == batch.crc}
            self.forgotten(AuditKind.DUPLICATE_EXACT, producer, batch, more, is_hidden=is_hidden)
        elif (fits and is_double and not epoch.is_double) or (not fits and (overlaps or was_read)):
            self.forgotten(AuditKind.DUPLICATE_PARTIAL, producer, batch, back, is_hidden=hidden)
        elif fits:
            pass
        elif batch.base_sequence == 0:
            if says:
                self.forgotten(AuditKind.SEQUENCE_RESET, producer, batch, back | {"distance": abs(step)})
        elif place > epoch.part_end:
            if not log.is_compacted:
                reached = epoch.frontier if place > epoch.frontier else epoch.part_end
                self.between(AuditKind.GAP, before, batch, place - reached)
        elif says:
            self.forgotten(AuditKind.BACKWARD, producer, batch, back, is_hidden=hidden)
        epoch.is_double = is_double
        epoch.has_hole |= place > epoch.frontier
        epoch.expected = (batch.base_sequence + length) % CIRCLE
        epoch.place_end = place_end
        epoch.part_end = place_end if begins_anew else max(epoch.part_end, place_end)
        epoch.frontier, epoch.lowest = max(epoch.frontier, place_end), min(epoch.lowest, place)
        epoch.written.append((place, batch))

    def overlap(self, epoch: Epoch, place: int, place_end: int) -> tuple[bool, bool]:
        """Whether readers may have got some of these places before, and whether they did for certain.

        Certain are those that were read one after the other up to the furthest.
        """
        read = [
            (at, at + each.last_offset_delta + 1, each.base_offset) for at, each in epoch.written if self.is_read(each)
        ]
        if not read:
            return False, False
        furthest = max(end for _, end, _ in read)
        certain = next(
            at for at, _, offset in reversed(read) if all(end < at for _, end, other in read if other < offset)
        )
        lowest = min(at for at, _, _ in read)
        return place < furthest and place_end > lowest, place < furthest and place_end > certain

    def is_read(self, batch: Batch) -> bool:
        """Whether readers of committed records get it."""
        return batch.base_offset not in self.aborted and last_offset(batch) >= self.log.log_start_offset

    def of(self, batch: Batch, prefix: str = "") -> dict[str, Any]:
        said = {
            f"{prefix}first_offset": batch.base_offset,
            f"{prefix}last_offset": last_offset(batch),
            f"{prefix}first_sequence": batch.base_sequence if is_data(batch) else None,
            f"{prefix}last_sequence": last_sequence(batch) if is_data(batch) else None,
        }
        return said | (
            {"before_epoch": batch.producer_epoch}
            if prefix
            else {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}
        )

    def of_marker(self, producer: Producer) -> dict[str, Any]:
        marker = producer.markers[-1]
        return {
            "before_epoch": marker.producer_epoch,
            "before_first_offset": marker.base_offset,
            "before_last_offset": last_offset(marker),
        }

    def forgotten(
        self,
        kind: AuditKind,
        producer: Producer,
        batch: Batch,
        more: dict[str, Any],
        *,
        is_hidden: bool | None = None,
        evidence: int | None = None,
    ) -> None:
        assert kind in FORGOTTEN
        seen = producer.seen
        known = Evidence(
            last_offset(seen) if evidence is None else evidence,
            self.log.log_start_offset,
            1 << 62,
            batch_is_there=True,
            last_timestamp=seen.max_timestamp,
            has_open_transaction=producer.opened is not None,
        )
        verdict = judge_lost_producer(known, as_of=batch.max_timestamp, expiration=self.expiration).verdict
        hidden = batch.base_offset in self.aborted if is_hidden is None else is_hidden
        self.add(kind, verdict, batch, is_hidden=hidden, **{**self.of(batch), **more})

    def between(self, kind: AuditKind, before: Batch, batch: Batch, distance: int) -> None:
        start, end = last_offset(before) + 1, batch.base_offset
        is_torn = any(hole < end and hole_end > start for hole, hole_end, _ in self.holes)
        evidence = Evidence(
            last_offset(before),
            self.log.log_start_offset,
            1 << 62,
            other_batch_is_there=batch.partition_leader_epoch > before.partition_leader_epoch and not is_torn,
            earlier_high_watermark=1 << 62,
        )
        said = self.of(batch) | self.of(before, "before_") | {"distance": distance}
        self.missing(kind, said, evidence, batch)

    def missing(self, kind: AuditKind, said: dict[str, Any], evidence: Evidence, batch: Batch | None = None) -> None:
        assert kind in MISSING
        start = said.get("before_last_offset", self.log.log_start_offset - 1) + 1
        is_unread = any(hole < said["first_offset"] and end > start and unread for hole, end, unread in self.holes)
        judgement = "UNREAD" if is_unread else judge_lost_producer(evidence, as_of=0, expiration=None).verdict
        self.add(kind, judgement, batch, **said)

    def add(
        self, kind: AuditKind, judgement: str, batch: Batch | None = None, *, is_hidden: bool = False, **said: Any
    ) -> None:
        if said.get("last_offset") is not None and said["last_offset"] < self.log.log_start_offset:
            return
        assert str(judgement) in JUDGEMENTS
        assert bool(judgement) == (kind in FORGOTTEN | MISSING)
        harm = harm_of(kind, str(judgement), is_hidden=is_hidden)
        about = {"kind": str(kind), "rule": RULE[kind], "judgement": str(judgement), "harm": str(harm)}
        segment, first = self.places[said["first_offset"]]
        place = {"segment_base_offset": segment, "position": first.position, "timestamp": first.max_timestamp}
        self.findings.append(about | {"batches": 1} | place | said)


def _writer(batch: Batch) -> tuple[int, int]:
    return batch.producer_id, batch.producer_epoch


def _looks(batch: Batch) -> tuple[int | None, ...]:
    """What a header says of the records."""
    stamped = None if batch.attributes & LOG_APPEND_TIME else batch.max_timestamp
    return batch.batch_length, batch.record_count, batch.last_offset_delta, batch.base_timestamp, stamped


def audit(log: AuditedLog, *, expiration: int | None) -> Iterator[dict[str, Any]]:
    """Findings of one partition, as rows of AUDIT_FINDINGS without its key and without what is null."""
    yield from Audit(log, expiration).run()
