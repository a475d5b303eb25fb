"""Situations that the leader of a partition answers: batches (Produce) and markers (WriteTxnMarkers).

The producer of the examples has epoch 3, and its batches of the sequences 0 to 4 and 5 to 9 are the last ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiersnap.snapshot.exactly_once.explain.situations import Situation, SituationAnswer
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.append import AppendOrigin, append
from tiersnap.snapshot.exactly_once.models.append_marker import append_marker
from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import BatchMetadata, EndMarker, NextBatch, ProducerEntry
from tiersnap.snapshot.exactly_once.models.verification import CheckResult, PendingVerification, TransactionCheck

_KNOWN = ProducerEntry(3, (BatchMetadata(0, 4, 36, 40), BatchMetadata(5, 9, 41, 45)), coordinator_epoch=5)
_FULL = ProducerEntry(3, tuple(BatchMetadata(50 + at, 54 + at, 36 + at, 40 + at) for at in range(0, 25, 5)))
_OPEN = replace(_KNOWN, txn_first_offset=36)
_MARKED = ProducerEntry(3, coordinator_epoch=5)
_DOES = {Answer.ACCEPT: "appends it", Answer.DUPLICATE_ACK: "appends nothing, and answers with the first offsets"}


def _batch(
    entry: ProducerEntry | None,
    batch: NextBatch,
    verification: TransactionCheck = TransactionCheck(),  # noqa: B008
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> Callable[[BrokerEra], SituationAnswer]:
    def ask(era: BrokerEra) -> SituationAnswer:
        answer = append(entry, batch, era, origin=origin, verification=verification).answer
        return SituationAnswer(answer, _DOES.get(answer, "appends nothing"))

    return ask


def _question(
    said: CheckResult, *, version: int = 1, produce_version: int = 12
) -> Callable[[BrokerEra], SituationAnswer]:
    asked = TransactionCheck(said, produce_version=produce_version)
    return _batch(None, NextBatch(3, 0, 4, transaction_version=version), asked)


def _marker(
    entry: ProducerEntry, epoch: int, *, version: int = 1, coordinator_epoch: int = 5, replicated: bool = False
) -> Callable[[BrokerEra], SituationAnswer]:
    origin = AppendOrigin.REPLICATION if replicated else AppendOrigin.COORDINATOR
    marker = EndMarker(epoch, coordinator_epoch, transaction_version=version)

    def ask(era: BrokerEra) -> SituationAnswer:
        found = append_marker(entry, marker, era, origin=origin)
        ends = "" if found.ended_first_offset is None else ", and ends the transaction"
        return SituationAnswer(found.answer, "appends nothing" if found.answer.is_error else f"appends it{ends}")

    return ask


def _produce(name: str, when: str, ask: Callable[[BrokerEra], SituationAnswer]) -> Situation:
    return Situation(name, "Produce", when, ask)


def _markers(name: str, when: str, ask: Callable[[BrokerEra], SituationAnswer]) -> Situation:
    return Situation(name, "WriteTxnMarkers", when, ask)


_BESIDE = TransactionCheck(pending=PendingVerification(7))
OF_PARTITIONS: tuple[Situation, ...] = (
    _produce("first-batch", "the producer is unknown, and its batch begins at 0", _batch(None, NextBatch(3, 0, 4))),
    _produce(
        "unknown-producer", "the producer is unknown, and its batch begins above 0", _batch(None, NextBatch(3, 7, 9))
    ),
    _produce(
        "unknown-producer-in-transaction",
        "the producer is unknown, and its batch, of a transaction of version 2, begins above 0",
        _batch(None, NextBatch(3, 7, 9, transaction_version=2)),
    ),
    _produce("next-batch", "the batch is the next one", _batch(_KNOWN, NextBatch(3, 10, 12))),
    _produce("retry", "the last batch comes again", _batch(_KNOWN, NextBatch(3, 5, 9))),
    _produce("retry-of-older", "the batch before the last comes again", _batch(_KNOWN, NextBatch(3, 0, 4))),
    _produce(
        "retry-of-older-after-restart",
        "the batch before the last comes again, to a broker that restarted: a snapshot keeps the last one alone",
        _batch(replace(_KNOWN, batches=_KNOWN.batches[-1:]), NextBatch(3, 0, 4)),
    ),
    _produce(
        "retry-of-oldest", "a batch comes again from before those that are cached", _batch(_FULL, NextBatch(3, 9, 13))
    ),
    _produce("gap", "a batch before this one is missing", _batch(_KNOWN, NextBatch(3, 12, 14))),
    _produce("overlap", "the batch repeats a part of other batches", _batch(_KNOWN, NextBatch(3, 4, 6))),
    _produce("reset", "the batch begins at 0 again in the same epoch", _batch(_FULL, NextBatch(3, 0, 0))),
    _produce("epoch-bump", "the batch has a higher epoch and begins at 0", _batch(_KNOWN, NextBatch(4, 0, 2))),
    _produce(
        "epoch-bump-above-0", "the batch has a higher epoch and begins above 0", _batch(_KNOWN, NextBatch(4, 10, 12))
    ),
    _produce(
        "older-epoch", "the batch has a lower epoch: its producer was fenced", _batch(_KNOWN, NextBatch(2, 10, 12))
    ),
    _produce(
        "first-after-marker",
        "all that is known of the producer is a marker, and its batch begins at 0",
        _batch(_MARKED, NextBatch(3, 0, 1)),
    ),
    _produce(
        "after-marker",
        "all that is known of the producer is a marker, and its batch begins above 0",
        _batch(_MARKED, NextBatch(3, 5, 6)),
    ),
    _produce(
        "plain-in-transaction",
        "the batch is outside transactions, and its producer has one open",
        _batch(_OPEN, NextBatch(3, 10, 10)),
    ),
    _produce(
        "beside-verification",
        "the coordinator is being asked about an earlier batch of the producer",
        _batch(_KNOWN, NextBatch(3, 10, 12), _BESIDE),
    ),
    _produce("verified", "the coordinator is asked, and knows of the partition", _question(CheckResult.VERIFIED)),
    _produce(
        "other-producer-id",
        "the coordinator is asked, and the transactional id has another producer id",
        _question(CheckResult.WRONG_PRODUCER_ID),
    ),
    _produce("fenced", "the coordinator is asked, and the epoch is not the current one", _question(CheckResult.FENCED)),
    _produce(
        "not-in-transaction",
        "the coordinator is asked, and no transaction names the partition",
        _question(CheckResult.PARTITION_MISSING),
    ),
    _produce(
        "not-in-transaction-of-old-client",
        "no transaction names the partition, and the client's Produce is of version 10 or lower",
        _question(CheckResult.PARTITION_MISSING, produce_version=10),
    ),
    _produce(
        "transaction-is-ending",
        "the coordinator is asked, and the transaction before is still ending",
        _question(CheckResult.CONCURRENT),
    ),
    _produce(
        "transaction-is-ending-in-version-2",
        "the coordinator is asked, and the transaction of version 2 before is still ending",
        _question(CheckResult.CONCURRENT, version=2),
    ),
    _produce("no-coordinator", "the coordinator cannot be asked", _question(CheckResult.UNAVAILABLE)),
    _produce(
        "transaction-ended-meanwhile",
        "the coordinator was asked, and the transaction ended before the append",
        _question(CheckResult.ENDED_MEANWHILE),
    ),
    _produce(
        "older-epoch-of-offsets",
        "a group coordinator commits offsets in a transaction of a lower epoch",
        _batch(_KNOWN, NextBatch(2, -1, -1, transaction_version=1), origin=AppendOrigin.COORDINATOR),
    ),
    _markers("marker", "a coordinator ends the transaction", _marker(_OPEN, 3)),
    _markers("marker-older-epoch", "the marker has a lower epoch", _marker(_OPEN, 2)),
    _markers(
        "marker-older-epoch-replicated", "a replica gets a marker of a lower epoch", _marker(_OPEN, 2, replicated=True)
    ),
    _markers("marker-without-bump", "the marker of version 2 does not raise the epoch", _marker(_OPEN, 3, version=2)),
    _markers("marker-again", "a marker of version 2 comes again", _marker(_KNOWN, 3, version=2)),
    _markers(
        "marker-of-last-epoch",
        "the marker of version 2 has epoch 32767, as the transaction has",
        _marker(replace(_OPEN, producer_epoch=32767), 32767, version=2),
    ),
    _markers(
        "marker-older-coordinator",
        "the marker is of a coordinator that another one has followed",
        _marker(_OPEN, 3, coordinator_epoch=4),
    ),
)
