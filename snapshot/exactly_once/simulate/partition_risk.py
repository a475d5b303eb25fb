"""All the numbers of one partition: its boundaries, and what KIP-952's rejected alternatives would cost it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.simulate.exposure import DEFAULT_DELIVERY_TIMEOUT_MS, ProducersAtRisk
from tiersnap.snapshot.exactly_once.simulate.replay_cost import DEFAULT_READ_RATE, Mismatch, mismatches, replay_cost
from tiersnap.snapshot.exactly_once.simulate.retention_wait import TopicRetention, waiting, write_rate
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import (
    ReplayCost,
    RiskedBoundary,
    Waiting,
)
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, Survey, causes
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry

DEFAULT_RETENTION = TopicRetention(604_800_000)  # log.retention.hours and log.retention.bytes of a broker


@dataclass(frozen=True, slots=True)
class RiskSettings:
    """The settings of the numbers."""

    now: int  # ms, the only reading of the clock
    # ms, producer.id.expiration.ms; None if producers never expire.
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS
    retention: TopicRetention = DEFAULT_RETENTION
    delivery_timeout: int = DEFAULT_DELIVERY_TIMEOUT_MS  # ms, the producers' delivery.timeout.ms
    read_rate: int = DEFAULT_READ_RATE  # bytes a second at which a log is replayed
    is_tiering_enabled: bool = False  # remote storage is enabled for the topics already
    era: BrokerEra = BROKER_ERAS[-1]  # the brokers that answer

    @property
    def broker_expiry(self) -> BrokerExpiry:
        """Return what a broker drops now."""
        return BrokerExpiry(self.now, self.producer_expiration)


@dataclass(frozen=True)
class RiskedPartition:
    """One partition."""

    survey: Survey
    settings: RiskSettings
    boundaries: tuple[RiskedBoundary, ...]  # ascending
    waiting: Waiting  # until retention has removed what is blocked
    rate: float | None  # bytes a millisecond that the log takes, None if no time passed
    # Producers that are alive and of which the log holds no record: a longer retention would have kept what a replay
    # needs of them. None if the log was not read from its beginning.
    outlived: int | None
    # Of KIP-952's bounded replay of the whole log, by reason, producers that are alive now.
    mismatches: dict[Mismatch, int]

    @cached_property
    def worst(self) -> RiskedBoundary | None:
        """Return the blocked boundary at which an empty snapshot would expose most, the lowest of several.

        None if none is blocked.
        """
        blocked = [each for each in self.boundaries if each.is_blocked]
        return max(blocked, key=lambda each: each.severity, default=None)

    @property
    def newest_cost(self) -> ReplayCost | None:
        """Return the cost at the highest blocked boundary, else at the highest; None without a closed segment."""
        blocked = [each for each in self.boundaries if each.is_blocked] or list(self.boundaries)
        return blocked[-1].cost if blocked else None

    @property
    def closed_bytes(self) -> float:
        """Return the average bytes of a closed segment; 0 without one."""
        sizes = [each.size_bytes for each in self.survey.segments if each.next_base_offset is not None]
        return sum(sizes) / len(sizes) if sizes else 0.0

    @property
    def causes(self) -> dict[str, int]:
        """Boundaries by cause, the most frequent first."""
        return dict(Counter(str(each.cause) for each in self.boundaries if each.cause is not None).most_common())


def partition_risk(survey: Survey, settings: RiskSettings) -> RiskedPartition:
    """Reckon everything that a survey allows to be said."""
    expiry = settings.broker_expiry
    offsets = survey.aligned_offsets
    none = SnapshotFound(Comparison(SnapshotVerdict.MISSING, "no file"), None)
    found = {**dict.fromkeys(offsets, none), **survey.found}
    # A broker deletes what lies at or below the log's beginning.
    begins = survey.segments[0].base_offset if survey.segments else 0
    kept = {offset: each for offset, each in found.items() if offset > begins}
    said = causes(kept, expiry)
    producers = _producers(survey, settings)
    readable = [offset for offset in offsets if offset >= survey.read_from]
    exposed = {} if producers is None else dict(zip(readable, producers.exposures(readable), strict=True))
    starts = {offset for offset, each in found.items() if each.compared.is_start}
    boundaries = []
    for offset in offsets:
        opened = survey.open_transactions.get(offset)
        boundaries.append(
            RiskedBoundary(
                offset,
                found[offset].compared.verdict(expiry),
                said[offset],
                exposed.get(offset),
                None if opened is None else len(opened),
                survey.crossing.get(offset),
                replay_cost(
                    survey.segments,
                    offset,
                    now=expiry.now,
                    expiration=expiry.expiration,
                    first_open_offset=min((first for _, first in opened or ()), default=None),
                    starts=starts,
                    read_rate=settings.read_rate,
                ),
            )
        )
    blocked = {each.offset for each in boundaries if each.is_blocked}
    rate = write_rate(survey.segments, now=expiry.now)
    wait = waiting(
        survey.segments,
        {each.base_offset for each in survey.segments if each.next_base_offset in blocked},
        settings.retention,
        now=expiry.now,
        rate=rate,
        is_tiering_enabled=settings.is_tiering_enabled,
    )
    window = _window_of(survey, settings)
    wrong = {} if producers is None or window is None else mismatches(producers, window)
    outlived = None if producers is None or survey.read_from > begins else int((producers.first_seen < 0).sum())
    return RiskedPartition(survey, settings, tuple(boundaries), wait, rate, outlived, wrong)


def _producers(survey: Survey, settings: RiskSettings) -> ProducersAtRisk | None:
    if survey.leader is None:
        return None
    return ProducersAtRisk(
        survey.leader,
        survey.sightings,
        now=settings.now,
        expiration=settings.producer_expiration,
        era=settings.era,
        log_start_offset=survey.log_start_offset,
        delivery_timeout=settings.delivery_timeout,
    )


def _window_of(survey: Survey, settings: RiskSettings) -> int | None:
    """Return where KIP-952's scan would begin: by segments alone, which is all that it looks at."""
    if not survey.segments:
        return None
    end, expiration = survey.log_end_offset, settings.producer_expiration
    window = replay_cost(survey.segments, end, now=settings.now, expiration=expiration).window_offset
    return window if window >= survey.read_from else None
