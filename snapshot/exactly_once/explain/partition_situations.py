"""Situations that the leader of a partition answers: batches (Produce) and markers (WriteTxnMarkers).

The producer of the examples has epoch 3. Its last batches have the sequences 0 to 4 and 5 to 9.

    entry    the leader's entry of the producer, a key of _ENTRIES; `-` if the leader has none
    batch    epoch, first and last sequence of the batch; `v2` in a transaction of version 2
    marker   epoch of the marker; `v2` for a transaction of version 2; `older` if the marker has a lower coordinator
             epoch than the entry; `replicated` if a replica appends the marker
"""

from __future__ import annotations

from dataclasses import replace

from tiersnap.snapshot.exactly_once.explain.situations import Ask, ExplainedCase, SituationAnswer, situations
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.append import AppendOrigin, append, append_marker
from tiersnap.snapshot.exactly_once.models.decision_table import Row
from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.models.producer_entry import BatchMetadata, EndMarker, NextBatch, ProducerEntry
from tiersnap.snapshot.exactly_once.models.verification import (
    VERIFIED,
    CheckResult,
    PendingVerification,
    TransactionCheck,
)

_KNOWN = ProducerEntry(3, (BatchMetadata(0, 4, 36, 40), BatchMetadata(5, 9, 41, 45)), coordinator_epoch=5)
_OPEN = replace(_KNOWN, txn_first_offset=36)
_ENTRIES = {
    "-": None,
    "known": _KNOWN,
    "restarted": replace(_KNOWN, batches=_KNOWN.batches[-1:]),
    "full": ProducerEntry(3, tuple(BatchMetadata(50 + at, 54 + at, 36 + at, 40 + at) for at in range(0, 25, 5))),
    "open": _OPEN,
    "open at 32767": replace(_OPEN, producer_epoch=32767),
    "marked": ProducerEntry(3, coordinator_epoch=5),
}
_CHECKS = {"beside-verification": TransactionCheck(pending=PendingVerification(7))}
_DOES = {
    Answer.ACCEPT: "appends the batch",
    Answer.DUPLICATE_ACK: "appends nothing, and answers with the offsets of the first append",
}


def _asked(
    entry: ProducerEntry | None,
    batch: NextBatch,
    verification: TransactionCheck = VERIFIED,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> Ask[BrokerEra]:
    def ask(era: BrokerEra) -> SituationAnswer:
        answer = append(entry, batch, era, origin=origin, verification=verification).answer
        return SituationAnswer(answer, _DOES.get(answer, "appends nothing"))

    return ask


def _batch(row: Row) -> Ask[BrokerEra]:
    epoch, first, last, *more = row["batch"].split()
    version = 2 if more else 0
    batch = NextBatch(int(epoch), int(first), int(last), transaction_version=version)
    return _asked(_ENTRIES[row["entry"]], batch, _CHECKS.get(row["name"], VERIFIED))


def _question(row: Row) -> Ask[BrokerEra]:
    batch = NextBatch(3, 0, 4, transaction_version=int(row["version"]))
    return _asked(None, batch, TransactionCheck(CheckResult(row["said"]), produce_version=int(row["produce"])))


def _marker(row: Row) -> Ask[BrokerEra]:
    entry, (epoch, *more) = _ENTRIES[row["entry"]], row["marker"].split()
    origin = AppendOrigin.REPLICATION if "replicated" in more else AppendOrigin.COORDINATOR
    coordinator_epoch = 4 if "older" in more else 5
    version = 2 if "v2" in more else 1
    marker = EndMarker(int(epoch), coordinator_epoch, transaction_version=version)

    def ask(era: BrokerEra) -> SituationAnswer:
        found = append_marker(entry, marker, era, origin=origin)
        if found.answer.is_error:
            return SituationAnswer(found.answer, "appends nothing")
        if found.ended_first_offset is None:
            return SituationAnswer(found.answer, "appends the marker")
        return SituationAnswer(found.answer, "appends the marker, and ends the transaction")

    return ask


OF_PARTITIONS: tuple[ExplainedCase[BrokerEra], ...] = (
    *situations(
        "Produce",
        _batch,
        """
 name                           | entry     | batch   | when
 first-batch                    | -         | 3 0 4   | the leader has no entry, and the batch begins at 0
 unknown-producer               | -         | 3 7 9   | the leader has no entry, and the batch begins above 0
 unknown-producer-in-transaction | -        | 3 7 9 v2 | \
the leader has no entry, and the batch of a transaction of version 2 begins above 0
 next-batch                     | known     | 3 10 12 | the batch is the next in sequence
 retry                          | known     | 3 5 9   | the client sends the last batch again
 retry-of-older                 | known     | 3 0 4   | the client sends the second-last batch again
 retry-of-older-after-restart   | restarted | 3 0 4   | \
the client sends the second-last batch again, and the broker restarted: a snapshot has only the last batch
 retry-of-oldest                | full      | 3 9 13  | the client sends a batch again that is no longer cached
 gap                            | known     | 3 12 14 | the previous batch is missing
 overlap                        | known     | 3 4 6   | the batch repeats parts of other batches
 reset                          | full      | 3 0 0   | the batch begins at 0 again in the same epoch
 epoch-bump                     | known     | 4 0 2   | the batch has a higher epoch and begins at 0
 epoch-bump-above-0             | known     | 4 10 12 | the batch has a higher epoch and begins above 0
 older-epoch                    | known     | 2 10 12 | the batch has a lower epoch: its producer was fenced
 first-after-marker             | marked    | 3 0 1   | \
the leader has only a marker of the producer, and the batch begins at 0
 after-marker                   | marked    | 3 5 6   | \
the leader has only a marker of the producer, and the batch begins above 0
 plain-in-transaction           | open      | 3 10 10 | \
the batch is outside transactions, but its producer has an open transaction
 beside-verification            | known     | 3 10 12 | \
the leader is still asking the coordinator about an earlier batch of the producer
""",
    ),
    *situations(
        "Produce",
        _question,
        """
 name                              | said                    | version | produce | when
 verified                          | verified                | 1 | 12 | \
the leader asks the coordinator, and the transaction includes the partition
 other-producer-id                 | wrong producer id       | 1 | 12 | \
the leader asks the coordinator, and the transactional id has another producer id
 fenced                            | fenced                  | 1 | 12 | \
the leader asks the coordinator, and the epoch is not the current one
 not-in-transaction                | partition missing       | 1 | 12 | \
the leader asks the coordinator, and no transaction includes the partition
 not-in-transaction-of-old-client  | partition missing       | 1 | 10 | \
no transaction includes the partition, and the client's Produce has version 10 or lower
 transaction-is-ending             | concurrent transactions | 1 | 12 | \
the leader asks the coordinator, and the previous transaction is still ending
 transaction-is-ending-in-version-2 | concurrent transactions | 2 | 12 | \
the leader asks the coordinator, and the previous transaction of version 2 is still ending
 no-coordinator                    | unavailable             | 1 | 12 | the leader cannot ask the coordinator
 transaction-ended-meanwhile       | ended meanwhile         | 1 | 12 | \
the leader asked the coordinator, and the transaction ended before the append
""",
    ),
    ExplainedCase(
        "older-epoch-of-offsets",
        "Produce",
        "a group coordinator commits offsets in a transaction of a lower epoch",
        _asked(_KNOWN, NextBatch(2, -1, -1, transaction_version=1), origin=AppendOrigin.COORDINATOR),
    ),
    *situations(
        "WriteTxnMarkers",
        _marker,
        """
 name                          | entry         | marker       | when
 marker                        | open          | 3            | a coordinator ends the transaction
 marker-older-epoch            | open          | 2            | the marker has a lower epoch
 marker-older-epoch-replicated | open          | 2 replicated | a replica receives a marker with a lower epoch
 marker-without-bump           | open          | 3 v2         | the marker of version 2 does not raise the epoch
 marker-again                  | known         | 3 v2         | a coordinator sends a marker of version 2 again
 marker-of-last-epoch          | open at 32767 | 32767 v2     | \
the marker of version 2 has epoch 32767, as its transaction does
 marker-older-coordinator      | open          | 3 older      | \
another coordinator has replaced the marker's coordinator
""",
    ),
)
