"""The risk of one partition at the end of each closed segment, and the cost of KIP-952's rejected alternatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.simulate.exposure import DEFAULT_DELIVERY_TIMEOUT_MS, ProducersAtRisk
from tiersnap.snapshot.exactly_once.simulate.replay_cost import DEFAULT_READ_RATE, Mismatch, mismatches, replay_cost
from tiersnap.snapshot.exactly_once.simulate.retention_wait import TopicRetention, waiting, write_rate
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import (
    Exposure,
    ReplayCost,
    RiskedBoundary,
    Waiting,
)
from tiersnap.snapshot.exactly_once.simulate.survey import SnapshotFound, Survey, causes
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.producer_fold import OpenTransactions
from tiersnap.snapshot.replay.comparison import Comparison
from tiersnap.snapshot.replay.expiry import DEFAULT_PRODUCER_EXPIRATION_MS, BrokerExpiry

DEFAULT_RETENTION = TopicRetention(604_800_000)  # Kafka's default: log.retention.hours=168, no log.retention.bytes


@dataclass(frozen=True, slots=True)
class RiskSettings:
    """The settings of `simulate --risk`."""

    now: int  # epoch ms
    # ms, producer.id.expiration.ms; None if producers never expire.
    producer_expiration: int | None = DEFAULT_PRODUCER_EXPIRATION_MS
    retention: TopicRetention = DEFAULT_RETENTION
    delivery_timeout: int = DEFAULT_DELIVERY_TIMEOUT_MS  # ms, delivery.timeout.ms of the producers
    read_rate: int = DEFAULT_READ_RATE  # bytes per second of a replay
    is_tiering_enabled: bool = False  # whether the topics already have remote.storage.enable=true
    era: BrokerEra = BROKER_ERAS[-1]  # brokers that give the answers

    @property
    def broker_expiry(self) -> BrokerExpiry:
        """Return the expiration that brokers apply at the time `now`."""
        return BrokerExpiry(self.now, self.producer_expiration)


@dataclass(frozen=True)
class RiskedPartition:
    """The risk of one partition."""

    survey: Survey
    settings: RiskSettings
    boundaries: tuple[RiskedBoundary, ...]  # ends of the closed segments, ascending
    waiting: Waiting  # wait until retention has deleted the blocked segments
    rate: float | None  # bytes per ms that are written to the log; None if no time passed
    # Number of active producers without a record in the log. With a longer retention, a replay would find them. None if
    # the log was not read from its beginning.
    outlived: int | None
    # Number of active producers that KIP-952's bounded replay of the whole log gets wrong, by reason.
    mismatches: dict[Mismatch, int]

    @cached_property
    def worst(self) -> RiskedBoundary | None:
        """Return the blocked boundary at which an empty snapshot would expose most producers.

        If several boundaries are equally bad, return the lowest boundary. If no boundary is blocked, return None.
        """
        return max(self._blocked, key=lambda each: each.severity, default=None)

    @property
    def _blocked(self) -> list[RiskedBoundary]:
        return [each for each in self.boundaries if each.is_blocked]

    @property
    def newest_cost(self) -> ReplayCost | None:
        """Return the replay cost at the highest blocked boundary. If none is blocked, take the highest boundary."""
        boundaries = self._blocked or list(self.boundaries)
        if not boundaries:
            return None
        return boundaries[-1].cost

    @property
    def closed_bytes(self) -> float:
        """Return the average size of a closed segment in bytes, 0 if there is none."""
        sizes = [each.size_bytes for each in self.survey.segments if each.next_base_offset is not None]
        return sum(sizes) / max(1, len(sizes))

    @property
    def causes(self) -> dict[str, int]:
        """Return the number of boundaries by cause, most frequent first."""
        return dict(Counter(str(each.cause) for each in self.boundaries if each.cause is not None).most_common())


_NO_FILE = SnapshotFound(Comparison(SnapshotVerdict.MISSING, "no file"), None)


def partition_risk(survey: Survey, settings: RiskSettings) -> RiskedPartition:
    """Return the risk of a partition. A number is None if the survey lacks the facts for it."""
    producers = _producers(survey, settings)
    boundaries = tuple(_boundaries(survey, settings, producers))
    rate = write_rate(survey.segments, now=settings.now)
    wait = waiting(
        survey.segments,
        _blocked_segments(survey, boundaries),
        settings.retention,
        now=settings.now,
        rate=rate,
        is_tiering_enabled=settings.is_tiering_enabled,
    )
    outlived = _outlived(survey, producers)
    return RiskedPartition(survey, settings, boundaries, wait, rate, outlived, _mismatches(survey, settings, producers))


def _boundaries(survey: Survey, settings: RiskSettings, producers: ProducersAtRisk | None) -> Iterator[RiskedBoundary]:
    """Yield the boundaries, which are the ends of the closed segments, ascending."""
    expiry = settings.broker_expiry
    found = {**dict.fromkeys(survey.aligned_offsets, _NO_FILE), **survey.found}
    # A broker deletes snapshots up to the first segment's base offset.
    kept = {offset: each for offset, each in found.items() if offset > survey.first_base_offset}
    cause_at, exposure_at = causes(kept, expiry), _exposures(survey, producers)
    starts = _start_offsets(found)
    for offset in survey.aligned_offsets:
        opened = survey.open_transactions.get(offset)
        cost = replay_cost(
            survey.segments,
            offset,
            now=expiry.now,
            expiration=expiry.expiration,
            first_open_offset=_first_offset(opened),
            starts=starts,
            read_rate=settings.read_rate,
        )
        yield RiskedBoundary(
            offset,
            found[offset].compared.verdict(expiry),
            cause_at[offset],
            exposure_at.get(offset),
            None if opened is None else len(opened),
            survey.crossing.get(offset),
            cost,
        )


def _start_offsets(found: Mapping[int, SnapshotFound]) -> set[int]:
    return {offset for offset, each in found.items() if each.compared.is_start}


def _first_offset(opened: OpenTransactions | None) -> int | None:
    """Return the first offset of the oldest open transaction, None if none is open or if unknown."""
    return min((first for _, first in opened or ()), default=None)


def _exposures(survey: Survey, producers: ProducersAtRisk | None) -> dict[int, Exposure]:
    """Return the exposure that an empty snapshot at the end of a closed segment would cause, by offset.

    Ends below `survey.read_from` are omitted, because their exposure is unknown.
    """
    if producers is None:
        return {}
    offsets = [offset for offset in survey.aligned_offsets if offset >= survey.read_from]
    return dict(zip(offsets, producers.exposures(offsets), strict=True))


def _blocked_segments(survey: Survey, boundaries: Sequence[RiskedBoundary]) -> set[int]:
    """Return the base offsets of the segments whose end has no right snapshot."""
    blocked = {each.offset for each in boundaries if each.is_blocked}
    return {each.base_offset for each in survey.segments if each.next_base_offset in blocked}


def _outlived(survey: Survey, producers: ProducersAtRisk | None) -> int | None:
    """Return the number of active producers without a record in the log, None if the log's beginning was not read."""
    if producers is None or survey.read_from > survey.first_base_offset:
        return None
    return int((producers.first_seen < 0).sum())


def _mismatches(survey: Survey, settings: RiskSettings, producers: ProducersAtRisk | None) -> dict[Mismatch, int]:
    window = _window_of(survey, settings)
    if producers is None or window is None:
        return {}
    return mismatches(producers, window)


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
    """Return the offset at which KIP-952's scan would begin, None if the log was not read from that offset."""
    if not survey.segments:
        return None
    end, expiration = survey.log_end_offset, settings.producer_expiration
    window = replay_cost(survey.segments, end, now=settings.now, expiration=expiration).window_offset
    if window < survey.read_from:
        return None
    return window
