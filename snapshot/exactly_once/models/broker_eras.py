"""How the brokers of each release treat producers, as data.

Releases of one era answer alike; what the answer to a batch's sequence is, per era, is the table in `append`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.models.eras import Era


@dataclass(frozen=True, slots=True)
class BrokerEra(Era):
    """How the brokers of some releases treat producers.

    Attributes:
        cached_batches: how many batches of a producer a broker can tell to be sent again.
        forgets_deleted: whether a live leader forgets a producer with the last of its records (until KAFKA-7190).
        stale_epoch_is_fatal: what INVALID_PRODUCER_EPOCH means to a client: its end, or abort and go on (KIP-588).
        replica_refuses_older_marker: whether a marker of a lower epoch stops a replica, too.
        marker_moves_timestamp: whether a marker keeps its producer from expiring.
        verifies: whether a leader asks the coordinator before a transaction begins on a partition (KIP-890, part 1).
        verifies_offsets: whether it does so, too, for offsets that a group coordinator commits.
        ongoing_needs_epoch: whether a transaction that is open spares the question only in the same epoch.
        checks_epoch_first: whether an older epoch is refused before the question.
        speaks_version_2: whether transactions of protocol version 2 exist (KIP-890, part 2).
        marker_needs_bump: whether a marker of a version 2 transaction must raise the epoch (KIP-1228).
        tolerates_last_epoch: whether such a marker need not where the epoch is 32767 already.
    """

    cached_batches: int = 5
    forgets_deleted: bool = False
    stale_epoch_is_fatal: bool = False
    replica_refuses_older_marker: bool = False
    marker_moves_timestamp: bool = True
    verifies: bool = False
    verifies_offsets: bool = False
    ongoing_needs_epoch: bool = False
    checks_epoch_first: bool = False
    speaks_version_2: bool = False
    marker_needs_bump: bool = False
    tolerates_last_epoch: bool = False


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
