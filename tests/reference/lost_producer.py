"""Is an out-of-sequence event spurious, or did acknowledged records go missing?

Two judges. The *live rule* is what a client can say from one produce response: it compares the last acknowledged offset
with the log start offset, and takes a producer that merely expired for a loss. `judge_lost_producer` looks at the log
and its neighbours, and can tell those apart, by the first row of `audit_rules.TABLE` that fits.

Follows "Solving the problem of spurious OutOfOrderSequence errors" (KIP-185's discussion) and
org.apache.kafka.clients.producer.internals.TransactionManager.canRetry of 1.0 to 2.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.audit_rules import TABLE, LossVerdict


class LiveReading(StrEnum):
    """What a client makes of an error by the live rule."""

    LEADER_MOVED = "leader moved"  # ask again
    SPURIOUS = "spurious"  # the front of the log was removed
    LOSS = "loss"
    ALREADY_WRITTEN = "already written"
    NO_EVIDENCE = "no evidence"  # the error says nothing about sequences


def live_rule(error: Answer, *, last_acked_offset: int, log_start_offset: int) -> LiveReading:
    """Judge one error as a client can.

    Args:
        last_acked_offset: inclusive, -1 before the first acknowledgement.
        log_start_offset: in the produce response, -1 without one.
    """
    if error is Answer.DUPLICATE_SEQUENCE_NUMBER:
        return LiveReading.ALREADY_WRITTEN
    if error is Answer.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return LiveReading.LOSS
    if error is not Answer.UNKNOWN_PRODUCER_ID:
        return LiveReading.NO_EVIDENCE
    if log_start_offset < 0:
        return LiveReading.LEADER_MOVED
    # Equal is a loss: the record at the log start offset should still be there.
    return LiveReading.SPURIOUS if last_acked_offset < log_start_offset else LiveReading.LOSS


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a producer that a broker does not know; offsets inclusive unless said otherwise.

    Attributes:
        last_offset: the highest offset that any batch or snapshot ever gave the producer, None without any.
        log_start_offset: of the partition.
        log_end_offset: exclusive.
        batch_is_there: the producer's own batch is at `last_offset` in the log.
        other_batch_is_there: a batch of somebody else, with another leader epoch, is.
        earlier_high_watermark: exclusive, the highest that is known of an earlier lineage; None if none is. A record
            below it was replicated, and thus acknowledged to whoever asked for acks=all.
        last_timestamp: ms, of the producer's last batch.
        has_open_transaction: it never expires then.
    """

    last_offset: int | None
    log_start_offset: int
    log_end_offset: int
    batch_is_there: bool = False
    other_batch_is_there: bool = False
    earlier_high_watermark: int | None = None
    is_compacted: bool = False
    last_timestamp: int = -1
    has_open_transaction: bool = False


@dataclass(frozen=True, slots=True)
class LossJudgement:
    """One producer judged.

    Attributes:
        rule: row of TABLE.
        is_real_loss: acknowledged records are gone.
        is_false_alarm: the live rule calls it a loss, and no record is gone.
    """

    rule: str
    verdict: LossVerdict
    is_real_loss: bool
    is_false_alarm: bool


def judge_lost_producer(evidence: Evidence, *, as_of: int, expiration: int | None) -> LossJudgement:
    """Judge one producer that is missing from a broker's state.

    Args:
        as_of: ms, when the broker looked.
        expiration: ms, the broker's producer.id.expiration.ms; None if it never drops producers.
    """
    for row in TABLE:
        if _CONDITIONS[row["condition"]](evidence, as_of, expiration):
            is_real_loss = row["lost"] == "records"
            reading = live_rule(
                Answer.UNKNOWN_PRODUCER_ID,
                last_acked_offset=_last(evidence),
                log_start_offset=evidence.log_start_offset,
            )
            is_alarm = reading is LiveReading.LOSS and not is_real_loss
            return LossJudgement(row["#"], LossVerdict(row["verdict"]), is_real_loss, is_alarm)
    raise AssertionError("the last row fits always")


def _last(evidence: Evidence) -> int:
    return -1 if evidence.last_offset is None else evidence.last_offset


def _is_idle(evidence: Evidence, as_of: int, expiration: int | None) -> bool:
    if expiration is None or evidence.has_open_transaction or not evidence.batch_is_there:
        return False
    return as_of - evidence.last_timestamp >= expiration


def _was_replicated(evidence: Evidence) -> bool:
    return evidence.earlier_high_watermark is not None and _last(evidence) < evidence.earlier_high_watermark


_CONDITIONS: dict[str, Callable[[Evidence, int, int | None], bool]] = {
    "no evidence of the producer": lambda evidence, _as_of, _expiration: evidence.last_offset is None,
    "below the log start": lambda evidence, _as_of, _expiration: _last(evidence) < evidence.log_start_offset,
    "in the log, idle for too long": _is_idle,
    "in the log": lambda evidence, _as_of, _expiration: evidence.batch_is_there,
    "above the log end, replicated": lambda evidence, _as_of, _expiration: (
        _last(evidence) >= evidence.log_end_offset and _was_replicated(evidence)
    ),
    "above the log end": lambda evidence, _as_of, _expiration: _last(evidence) >= evidence.log_end_offset,
    "another batch there, replicated": lambda evidence, _as_of, _expiration: (
        evidence.other_batch_is_there and _was_replicated(evidence)
    ),
    "another batch there": lambda evidence, _as_of, _expiration: evidence.other_batch_is_there,
    "compacted": lambda evidence, _as_of, _expiration: evidence.is_compacted,
    "always": lambda _evidence, _as_of, _expiration: True,
}
