"""Small logs whose findings are known, each in one segment: what a reader of docs/audit.md would expect of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.reference.audited_log import AuditedLog, sent_again
from tests.reference.log_builder import ABORT, COMMIT, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from tests.reference.record_batch import Batch


@dataclass(frozen=True)
class Case:
    """`found`: kind, harm and first offset of each finding, by offset."""

    says: str
    batches: tuple[Batch, ...]
    found: tuple[tuple[str, str, int], ...] = ()
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def log(self) -> AuditedLog:
        base = self.batches[0].base_offset
        return AuditedLog({base: list(self.batches)}, {base: None}, **self.known)


def batch(offset: int, sequence: int, count: int = 10, *, producer_id: int = 7, epoch: int = 0, **more: int) -> Batch:
    """A plain batch; a header that is not named is 0, also its position."""
    header = dict.fromkeys(Batch.__dataclass_fields__, 0) | {"control_type": -1, "batch_length": 50}
    header |= {"base_offset": offset, "last_offset_delta": count - 1, "record_count": count, "base_sequence": sequence}
    return Batch(**header | {"producer_id": producer_id, "producer_epoch": epoch, "coordinator_epoch": -1} | more)


def sent(offset: int, sequence: int, count: int = 5, epoch: int = 0) -> Batch:
    """A batch of a transaction."""
    return batch(offset, sequence, count, epoch=epoch, attributes=TRANSACTIONAL)


def committed(offset: int, epoch: int = 0) -> Batch:
    """Offsets that a transaction commits: a batch without sequences, as `__consumer_offsets` has them."""
    return batch(offset, -1, 1, epoch=epoch, attributes=TRANSACTIONAL)


def marker(offset: int, control_type: int, epoch: int = 0, coordinator_epoch: int = 0, record_count: int = 1) -> Batch:
    """The end of a transaction."""
    header = {"attributes": CONTROL | TRANSACTIONAL, "control_type": control_type, "record_count": record_count}
    return batch(offset, -1, 1, epoch=epoch, coordinator_epoch=coordinator_epoch, **header)


_ONE, _TWO = batch(0, 0, 1, crc=0x1234), batch(0, 0, 2, crc=0x5678)
_AT_REST = tuple(batch(offset, offset, 1) for offset in range(2, 8))  # six more of producer 7: nothing is in flight

CASES = (
    Case(
        "a batch that is sent again after an epoch bump is a duplicate, also of one record",
        (_ONE, sent_again(_ONE, base_offset=1, producer_epoch=1)),
        (("DUPLICATE_RENUMBERED", "DUPLICATE", 1),),
    ),
    Case(
        "a batch that is sent again under a new producer id is a duplicate, and so is its second copy",
        (_TWO, sent_again(_TWO, base_offset=2, producer_id=8), sent_again(_TWO, base_offset=4, producer_id=9)),
        (("DUPLICATE_RENUMBERED", "DUPLICATE", 2), ("DUPLICATE_RENUMBERED", "DUPLICATE", 4)),
    ),
    Case(
        "several records of a producer that nobody waited for are taken for sent again",
        (_TWO, *_AT_REST, sent_again(_TWO, base_offset=8, producer_id=8)),
        (("DUPLICATE_RENUMBERED", "DUPLICATE", 8),),
    ),
    Case(
        "two producers that say the same one record at one time do no harm",
        (_ONE, batch(1, 1, 1), *_AT_REST, sent_again(_ONE, base_offset=8, producer_id=8)),
        (("DUPLICATE_RENUMBERED", "NONE", 8),),
    ),
    Case(
        "a producer that says the same again in its epoch is taken at its word",
        (_TWO, sent_again(_TWO, base_offset=2, base_sequence=2), sent_again(_TWO, base_offset=4, base_sequence=4)),
    ),
    Case(
        "records of another CRC, or of another time, are other records",
        (
            *(_TWO, batch(2, 0, 2, epoch=1, crc=0x9ABC)),
            sent_again(_TWO, base_offset=4, base_sequence=0, producer_epoch=2, max_timestamp=1),
        ),
    ),
    Case(
        "where the broker stamps records, they are stamped anew",
        (
            batch(0, 0, 2, attributes=LOG_APPEND_TIME, crc=0x5678),
            sent_again(
                batch(0, 0, 2, attributes=LOG_APPEND_TIME, crc=0x5678),
                base_offset=2,
                producer_epoch=1,
                max_timestamp=7,
            ),
        ),
        (("DUPLICATE_RENUMBERED", "DUPLICATE", 2),),
    ),
    Case(
        "what was aborted is sent again without harm",
        (sent(0, 0), marker(5, ABORT), sent_again(sent(0, 0), base_offset=6, producer_epoch=1), marker(11, COMMIT, 1)),
        (("DUPLICATE_RENUMBERED", "NONE", 6),),
    ),
    Case(
        "a duplicate of a committed batch is harm, also with an aborted copy between the two",
        (
            *(sent(0, 0), marker(5, COMMIT)),
            *(sent(6, 0), marker(11, ABORT)),
            *(sent(12, 0), marker(17, COMMIT)),
        ),
        (("DUPLICATE_EXACT", "NONE", 6), ("DUPLICATE_EXACT", "DUPLICATE", 12)),
    ),
    Case(
        "a duplicate of a plain batch is harm, also with an aborted copy between the two",
        (batch(0, 0, 5), sent(5, 0), marker(10, ABORT), batch(11, 0, 5)),
        (("DUPLICATE_EXACT", "NONE", 5), ("DUPLICATE_EXACT", "DUPLICATE", 11)),
    ),
    Case(
        "a duplicate of a batch that was only aborted before, or deleted since, is no harm",
        (batch(0, 0, 5), sent(5, 0), marker(10, ABORT), batch(11, 0, 5)),
        (("DUPLICATE_EXACT", "NONE", 5), ("DUPLICATE_EXACT", "NONE", 11)),
        {"log_start_offset": 5},
    ),
    Case(
        "a late batch of an aborted transaction that the next one's marker commits is told by the raised epoch",
        (sent(0, 0), marker(5, ABORT), sent(6, 5), sent(11, 0, epoch=1), marker(16, COMMIT, epoch=1)),
        (("EPOCH_RAISED_IN_TRANSACTION", "TRANSACTION", 11),),
    ),
    Case(
        "a late batch that the next transaction's marker aborts is in no reader's way",
        (sent(0, 0), marker(5, ABORT), sent(6, 5), sent(11, 0, epoch=1), marker(16, ABORT, epoch=1)),
        (("EPOCH_RAISED_IN_TRANSACTION", "NONE", 11),),
    ),
    Case(
        "markers that raise the epoch, as those of transactions of version 2 do, are none",
        (
            *(sent(0, 0), marker(5, COMMIT, epoch=1)),
            *(sent(6, 0, epoch=1), marker(11, ABORT, epoch=2)),
            *(sent(12, 0, epoch=2), marker(17, COMMIT, epoch=3)),
        ),
    ),
    Case(
        "a raised epoch behind a hole says nothing: a marker may have been there",
        (sent(0, 0), sent(6, 0, epoch=1), marker(11, COMMIT, epoch=1)),
        (("OFFSET_GAP", "LOSS", 6),),
    ),
    Case(
        "a raised epoch behind a control batch that compaction emptied says nothing",
        (sent(0, 0), marker(5, -1, record_count=0), sent(6, 0, epoch=1), marker(11, COMMIT, epoch=1)),
    ),
    Case(
        "a raised epoch in a compacted log says nothing",
        (sent(0, 0), sent(5, 0, epoch=1), marker(10, COMMIT, epoch=1)),
        known={"is_compacted": True},
    ),
    Case(
        "a raised epoch whose transaction lies below the log start before it says nothing",
        (sent(0, 0), sent(5, 0, epoch=1), marker(10, COMMIT, epoch=1)),
        known={"log_start_offset": 5},
    ),
    Case(
        "an offset commit of an epoch that a marker before it had left is a zombie's, also in a compacted log",
        (committed(0), marker(1, COMMIT, epoch=1), committed(2), marker(3, COMMIT, epoch=1)),
        (("ZOMBIE_WRITE", "FENCING", 2),),
        {"is_compacted": True},
    ),
    Case(
        "a zombie's offset commit that was aborted does no harm",
        (committed(0), marker(1, COMMIT, epoch=1), committed(2), marker(3, ABORT, epoch=1)),
        (("ZOMBIE_WRITE", "NONE", 2),),
    ),
    Case(
        "an offset commit of a lower epoch than one before it, of which no marker says so, goes back in epochs",
        (committed(0, epoch=1), committed(1), marker(2, COMMIT, epoch=1)),
        (("EPOCH_REGRESSION", "FENCING", 1),),
    ),
    Case(
        "batches without sequences are in no other's way",
        (
            *(committed(0), sent(1, 0), committed(6), sent(7, 5), committed(12), marker(13, COMMIT)),
            *(sent(14, 0), committed(19), sent(20, 10), committed(25), marker(26, COMMIT)),
        ),
        (("DUPLICATE_EXACT", "DUPLICATE", 14),),
    ),
    Case(
        "a marker of an epoch below that of the batch before it is a zombie's",
        (sent(0, 0, epoch=1), marker(5, COMMIT, epoch=0)),
        (("ZOMBIE_MARKER", "FENCING", 5),),
    ),
    Case(
        "a marker of an epoch below that of the marker before it is a zombie's, also where it aborts nothing",
        (sent(0, 0, epoch=1), marker(5, COMMIT, epoch=1), marker(6, ABORT, epoch=0)),
        (("ZOMBIE_MARKER", "FENCING", 6),),
    ),
    Case(
        "markers of a fenced coordinator are zombies', each one",
        (
            *(sent(0, 0), marker(5, COMMIT, coordinator_epoch=5), sent(6, 5), marker(11, ABORT, coordinator_epoch=4)),
            *(sent(12, 10), marker(17, COMMIT, coordinator_epoch=4)),
            *(sent(18, 15), marker(23, COMMIT, coordinator_epoch=5)),
        ),
        (("ZOMBIE_MARKER", "FENCING", 11), ("ZOMBIE_MARKER", "FENCING", 17)),
    ),
    Case(
        "an open transaction that an operator aborts, where the broker knew no coordinator epoch, is none",
        (
            *(sent(0, 0), marker(5, COMMIT, coordinator_epoch=5)),
            *(sent(6, 5), marker(11, ABORT, coordinator_epoch=0)),
            *(sent(12, 10), marker(17, COMMIT, coordinator_epoch=5)),
        ),
    ),
    Case(
        "coordinator epoch 0 is a fenced coordinator's where nothing is open, and of a commit",
        (
            *(sent(0, 0), marker(5, COMMIT, coordinator_epoch=5), marker(6, ABORT, coordinator_epoch=0)),
            *(sent(7, 5), marker(12, COMMIT, coordinator_epoch=0)),
        ),
        (("ZOMBIE_MARKER", "FENCING", 6), ("ZOMBIE_MARKER", "FENCING", 12)),
    ),
    Case(
        "what a zombie left open is aborted in the zombie's epoch",
        (sent(0, 0, epoch=1), marker(5, COMMIT, epoch=1), sent(6, 0), marker(11, ABORT)),
        (("ZOMBIE_WRITE", "NONE", 6),),
    ),
    Case(
        "a control batch that compaction emptied is no zombie's",
        (sent(0, 0, epoch=1), marker(5, -1, record_count=0), marker(6, COMMIT, epoch=1), sent(7, 5, epoch=1)),
        (("OPEN_TRANSACTION", "NONE", 7),),
    ),
    Case(
        "a producer that begins anew, all of whose batches lie below the log start, doubles nothing",
        (batch(0, 0), batch(10, 10), batch(20, 0, 5), batch(25, 5)),
        (("DUPLICATE_PARTIAL", "NONE", 20),),
        {"log_start_offset": 20},
    ),
    Case(
        "a duplicate of what lies below the log start is none of what came since",
        (batch(0, 0), batch(10, 10), batch(20, 20), batch(30, 5, 10), batch(40, 15, 5), batch(45, 20, 3)),
        (("DUPLICATE_PARTIAL", "NONE", 30), ("DUPLICATE_PARTIAL", "DUPLICATE", 45)),
        {"log_start_offset": 20},
    ),
    Case(
        "a batch cut otherwise that readers got is doubled, also with an aborted copy between the two",
        (
            *(sent(0, 0, 10), marker(10, COMMIT)),
            *(sent(11, 0, 5), marker(16, ABORT)),
            *(sent(17, 0, 5), marker(22, COMMIT)),
        ),
        (("DUPLICATE_PARTIAL", "NONE", 11), ("DUPLICATE_EXACT", "DUPLICATE", 17)),
    ),
    Case(
        "what goes on from a harmless duplicate and is the first that readers get twice is found, and not what follows",
        (
            *(sent(0, 0, 20), marker(20, COMMIT)),
            *(sent(21, 0, 5), marker(26, ABORT)),
            *(sent(27, 5, 5), sent(32, 10, 5), marker(37, COMMIT)),
        ),
        (("DUPLICATE_PARTIAL", "NONE", 21), ("DUPLICATE_PARTIAL", "DUPLICATE", 27)),
    ),
    Case(
        "an aborted batch that comes again and is committed is none of the committed ones around it",
        (
            *(sent(0, 0), marker(5, COMMIT), sent(6, 5), marker(11, ABORT), sent(12, 10), marker(17, COMMIT)),
            *(sent(18, 5), marker(23, COMMIT), sent(24, 10), marker(29, ABORT)),
        ),
        (("DUPLICATE_EXACT", "NONE", 18), ("DUPLICATE_EXACT", "NONE", 24)),
    ),
)
