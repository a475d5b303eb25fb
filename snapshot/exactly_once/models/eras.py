"""Eras: ranges of Kafka releases whose brokers give the same answers, or whose Java clients react in the same way.

KIP-691 defines the severities. RETRY is invisible to the application. ABORTABLE requires an abort, after which the
producer continues. FATAL ends the producer. FAIL_BATCH passes the exception to the batch's callback, and the producer
continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tiersnap.snapshot.exactly_once.models.decision_table import read_table


@dataclass(frozen=True, slots=True)
class Era:
    """A range of releases with the same behaviour."""

    name: str  # name of the era, a column of the decision tables
    first: tuple[int, ...]  # the first release, as numbers
    releases: str  # the releases in words
    changed_by: str  # the KIPs and issues that changed the behaviour


E = TypeVar("E", bound=Era)


def era_of(release: str, eras: Sequence[E]) -> E:
    """Return the era of a release such as `3.9` or `3.9.1`.

    Raises:
        ValueError: `release` is no release of Kafka, or is older than the first era.
    """
    try:
        numbers = tuple(map(int, release.split(".")))
    except ValueError as error:
        raise ValueError(f"{release!r} is not a release of Kafka; give a release such as 3.9 or 3.9.1") from error
    for era in reversed(eras):
        if era.first <= numbers:
            return era
    raise ValueError(f"Kafka {release!r} has no idempotent producers: they exist since 0.11")


def newest_known(eras: Sequence[Era]) -> str:
    """Return the newest release that the eras cover, such as `4.4`."""
    return eras[-1].releases.rpartition("-")[2]


def is_newer(release: str, eras: Sequence[Era]) -> bool:
    """Return whether a release is newer than all eras. 4.4.1 is part of 4.4, so it is not newer.

    Raises:
        ValueError: see `era_of`.
    """
    era_of(release, eras)
    newest = tuple(map(int, newest_known(eras).split(".")))
    return tuple(map(int, release.split(".")))[: len(newest)] > newest


def releases_of(eras: Iterable[Era], all_eras: Sequence[Era]) -> str:
    """Return the releases of several eras. Neighbouring eras are one range, as in `1.0.0-2.4, 4.1-4.4`."""
    chosen = {era.name for era in eras}
    ranges: list[list[Era]] = []
    is_after_chosen = False
    for era in all_eras:
        if era.name in chosen:
            if is_after_chosen:
                ranges[-1].append(era)
            else:
                ranges.append([era])
        is_after_chosen = era.name in chosen
    return ", ".join(map(_range, ranges))


def _range(eras: Sequence[Era]) -> str:
    if len(eras) == 1:
        return eras[0].releases
    return f"{eras[0].releases.split('-')[0]}-{eras[-1].releases.split('-')[-1]}"


@dataclass(frozen=True, slots=True)
class BrokerEra(Era):
    """A range of releases whose brokers give producers the same answers."""

    cached_batches: int = 5  # number of batches per producer that a broker caches to recognise retries
    # Whether a running leader removes a producer when its last record is deleted (until KAFKA-7190)
    forgets_deleted: bool = False
    # Whether INVALID_PRODUCER_EPOCH is fatal for a client. If not, the client can abort and continue (KIP-588)
    stale_epoch_is_fatal: bool = False
    replica_refuses_older_marker: bool = False  # whether replicas also refuse a marker with a lower epoch
    marker_moves_timestamp: bool = True  # whether a marker delays the expiration of its producer
    # Whether a leader asks the coordinator before it accepts a new transaction on a partition (KIP-890, part 1)
    verifies: bool = False
    verifies_offsets: bool = False  # whether the leader also asks before it accepts a transaction's committed offsets
    ongoing_needs_epoch: bool = False  # whether a batch is also verified if the open transaction has another epoch
    checks_epoch_first: bool = False  # whether an older epoch is refused before the coordinator is asked
    speaks_version_2: bool = False  # whether transactions of version 2 exist (KIP-890, part 2)
    marker_needs_bump: bool = False  # whether a marker of a version 2 transaction must raise the epoch (KIP-1228)
    tolerates_last_epoch: bool = False  # whether a marker with epoch 32767 needs no higher epoch


_BEFORE_2_4 = {
    "forgets_deleted": True,
    "stale_epoch_is_fatal": True,
    "replica_refuses_older_marker": True,
    "marker_moves_timestamp": False,
}
_IN_4_0 = dict.fromkeys(("verifies", "verifies_offsets", "ongoing_needs_epoch", "speaks_version_2"), True)
_IN_4_1 = {**_IN_4_0, "checks_epoch_first": True}
_IN_4_2 = {**_IN_4_1, "marker_needs_bump": True}
_IN_4_3 = {**_IN_4_2, "tolerates_last_epoch": True}

BROKER_ERAS = (
    BrokerEra("B0", (0, 11), "0.11", "KIP-98", 1, **_BEFORE_2_4),
    BrokerEra("B1", (1, 0), "1.0.0-1.0.1", "KAFKA-5494, KAFKA-5793", **_BEFORE_2_4),
    BrokerEra("B2", (1, 0, 2), "1.0.2-2.0.0", "KAFKA-6683", **_BEFORE_2_4),
    BrokerEra("B3", (2, 0, 1), "2.0.1-2.3", "KAFKA-7298", **_BEFORE_2_4),
    BrokerEra("B4", (2, 4), "2.4", "KAFKA-7190", stale_epoch_is_fatal=True),
    BrokerEra("B5", (2, 5), "2.5-2.6", "KIP-360", stale_epoch_is_fatal=True),
    BrokerEra("B6", (2, 7), "2.7-3.5", "KIP-588"),
    BrokerEra("B7", (3, 6), "3.6-3.7", "KIP-890", verifies=True),
    BrokerEra("B8", (3, 8), "3.8-3.9", "KIP-890", verifies=True, verifies_offsets=True),
    BrokerEra("B9", (4, 0), "4.0", "KIP-890", **_IN_4_0),
    BrokerEra("B10", (4, 1), "4.1", "KAFKA-18202", **_IN_4_1),
    BrokerEra("B11", (4, 2), "4.2", "KIP-1228", **_IN_4_2),
    BrokerEra("B12", (4, 3), "4.3-4.4", "KAFKA-20090", **_IN_4_3),
)
BROKER_ERA = {era.name: era for era in BROKER_ERAS}


@dataclass(frozen=True, slots=True)
class ClientEra(Era):
    """A range of releases whose Java clients react in the same way."""


CLIENT_ERAS = (
    ClientEra("C0", (0, 11), "0.11", "KIP-98"),
    ClientEra("C1", (1, 0), "1.0-2.4", "KAFKA-5494, KAFKA-5793"),
    ClientEra("C2", (2, 5), "2.5-2.6", "KIP-360"),
    ClientEra("C3", (2, 7), "2.7-3.9", "KIP-588"),
    ClientEra("C4", (4, 0), "4.0", "KIP-890"),
    ClientEra("C5", (4, 1), "4.1-4.4", "KIP-1050"),
)
CLIENT_ERA = {era.name: era for era in CLIENT_ERAS}


class Severity(StrEnum):
    """The severity of an error for the application (KIP-691)."""

    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FAIL_BATCH = "FAIL_BATCH"
    ABORTABLE = "ABORTABLE"
    FATAL = "FATAL"


class Reaction(StrEnum):
    """The next action of a client. The values are the words of the decision tables."""

    SUCCESS = "success"
    RETRY = "retry"
    SPLIT = "split"
    RENUMBER = "renumber"
    BUMP = "bump"
    NEW_ID = "new id"
    FAIL = "fail"
    FAIL_LOWER = "fail+lower"
    FAIL_NEW_ID = "fail+id"
    FAIL_BUMP = "fail+bump"
    ABORT = "abort"
    ABORT_LOWER = "abort+lower"
    FATAL = "fatal"
    UNINITIALIZED = "undo"

    @property
    def severity(self) -> Severity:
        """Return the severity for the application."""
        return Severity(_ROWS[self]["severity"])

    @property
    def next_step(self) -> str:
        """Return the client's next request or action."""
        return _ROWS[self]["next step"]

    @property
    def may_duplicate(self) -> bool:
        """Return whether the client may send records again in a way that no broker recognises.

        A batch with another sequence, epoch or producer id is new to every broker. If the failed attempt was written,
        its records are in the log twice. No release of the client checks whether the failed attempt was written.
        """
        return _ROWS[self]["renames"] == "yes"


_TABLE = read_table("""
 reaction    | severity   | renames | next step
 success     | IGNORE     | no  | goes on; offset and timestamp of the batch stay unknown
 retry       | RETRY      | no  | sends the same batch again
 split       | RETRY      | no  | sends the records again in smaller batches
 renumber    | RETRY      | yes | numbers all batches in flight from sequence 0 in the same epoch, and sends them again
 bump        | RETRY      | yes | \
takes the next epoch, numbers all batches in flight from sequence 0, and sends them again
 new id      | RETRY      | yes | \
asks for a new producer id, numbers all batches in flight from sequence 0, and sends them again
 fail        | FAIL_BATCH | no  | fails the batch and sends the next one
 fail+lower  | FAIL_BATCH | no  | fails the batch, lowers the sequences of later batches, and sends these batches
 fail+id     | FAIL_BATCH | yes | fails the batch and goes on with a new producer id
 fail+bump   | FAIL_BATCH | yes | fails the batch and goes on in the next epoch from sequence 0
 abort       | ABORTABLE  | no  | waits for the application to abort the transaction
 abort+lower | ABORTABLE  | no  | lowers the sequences of later batches, and waits for the application to abort
 fatal       | FATAL      | no  | fails everything; the application has to close the producer
 undo        | ABORTABLE  | no  | goes back to the state before initTransactions
""")
_ROWS = {Reaction(row["reaction"]): row for row in _TABLE}
