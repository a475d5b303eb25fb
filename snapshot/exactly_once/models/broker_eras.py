"""How the brokers of each release treat producers, as data.

Releases of one era answer alike; what the answer to a batch's sequence is, per era, is the table in `append`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class BrokerEra:
    """How the brokers of some releases treat producers.

    Attributes:
        name: column of the tables.
        first: the first release, as numbers.
        releases: as people say it.
        changed_by: the KIPs and issues that made it another era.
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

    name: str
    first: tuple[int, ...]
    releases: str
    changed_by: str
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


def _before_kip_360(
    name: str, first: tuple[int, ...], releases: str, changed_by: str, cached_batches: int = 5
) -> BrokerEra:
    return BrokerEra(
        name,
        first,
        releases,
        changed_by,
        cached_batches,
        forgets_deleted=True,
        stale_epoch_is_fatal=True,
        replica_refuses_older_marker=True,
        marker_moves_timestamp=False,
    )


def _since_4_0(name: str, first: tuple[int, ...], releases: str, changed_by: str, **rules: bool) -> BrokerEra:
    era = BrokerEra(
        name,
        first,
        releases,
        changed_by,
        verifies=True,
        verifies_offsets=True,
        ongoing_needs_epoch=True,
        speaks_version_2=True,
    )
    return replace(era, **rules)  # type: ignore[arg-type]


BROKER_ERAS = (
    _before_kip_360("B0", (0, 11), "0.11", "KIP-98", cached_batches=1),
    _before_kip_360("B1", (1, 0), "1.0.0-1.0.1", "KAFKA-5494, KAFKA-5793"),
    _before_kip_360("B2", (1, 0, 2), "1.0.2-2.0.0", "KAFKA-6683"),
    _before_kip_360("B3", (2, 0, 1), "2.0.1-2.3", "KAFKA-7298"),
    BrokerEra("B4", (2, 4), "2.4", "KAFKA-7190", stale_epoch_is_fatal=True),
    BrokerEra("B5", (2, 5), "2.5-2.6", "KIP-360", stale_epoch_is_fatal=True),
    BrokerEra("B6", (2, 7), "2.7-3.5", "KIP-588"),
    BrokerEra("B7", (3, 6), "3.6-3.7", "KIP-890", verifies=True),
    BrokerEra("B8", (3, 8), "3.8-3.9", "KIP-890", verifies=True, verifies_offsets=True),
    _since_4_0("B9", (4, 0), "4.0", "KIP-890"),
    _since_4_0("B10", (4, 1), "4.1", "KAFKA-18202", checks_epoch_first=True),
    _since_4_0("B11", (4, 2), "4.2", "KIP-1228", checks_epoch_first=True, marker_needs_bump=True),
    _since_4_0(
        "B12",
        (4, 3),
        "4.3-4.4",
        "KAFKA-20090",
        checks_epoch_first=True,
        marker_needs_bump=True,
        tolerates_last_epoch=True,
    ),
)
BROKER_ERA = {era.name: era for era in BROKER_ERAS}


class Era(Protocol):
    """What eras of brokers and of clients have in common."""

    @property
    def name(self) -> str:
        """Column of the tables."""

    @property
    def first(self) -> tuple[int, ...]:
        """The first release."""

    @property
    def releases(self) -> str:
        """As people say it."""

    @property
    def changed_by(self) -> str:
        """KIPs and issues that made it another era."""


E = TypeVar("E", bound=Era)


def era_of(release: str, eras: Sequence[E]) -> E:
    """The era of a release such as `3.9` or `3.9.1`.

    Raises:
        ValueError: it is no release, or one from before the first era.
    """
    try:
        numbers = tuple(int(part) for part in release.split("."))
    except ValueError as error:
        raise ValueError(f"{release!r} is no release of Kafka; use 3.9 or 3.9.1") from error
    fitting = [era for era in eras if era.first <= numbers]
    if not fitting:
        raise ValueError(f"{release!r} has no idempotent producers: they came with 0.11")
    return fitting[-1]


def releases_of(eras: Iterable[Era], all_eras: Sequence[Era]) -> str:
    """Several eras as people say it: neighbours as one range, `1.0.0-2.4, 4.1-4.4`."""
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
    return ", ".join(_range(each) for each in ranges)


def _range(eras: Sequence[Era]) -> str:
    if len(eras) == 1:
        return eras[0].releases
    return f"{eras[0].releases.split('-')[0]}-{eras[-1].releases.split('-')[-1]}"
