"""The rows of `simulate --risk`, and their sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from tiersnap.snapshot.exactly_once.simulate.risk_kinds import (
    BoundaryRow,
    Crossing,
    Exposure,
    PartitionRisk,
    PartitionRow,
    RiskedBoundary,
    Wait,
    WritingRate,
)
from tiersnap.snapshot.members import members
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.units import count_of, human_bytes, human_duration

if TYPE_CHECKING:
    from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskedPartition


BOUNDARIES = Rows(BoundaryRow)
PARTITIONS = Rows(PartitionRow)


def boundary_rows(risk: RiskedPartition) -> Iterator[BoundaryRow]:
    """Yield a row for each boundary, ascending."""
    for each in risk.boundaries:
        yield BoundaryRow(risk.survey.replica, each)


def partition_row(risk: RiskedPartition) -> PartitionRow:
    """Return the row of a partition."""
    survey, settings, leader = risk.survey, risk.settings, risk.survey.leader
    numbers = PartitionRisk(
        segments=len(survey.segments),
        bytes=sum(each.size_bytes for each in survey.segments),
        alive=None if leader is None else int(leader.live(settings.broker_expiry).entries.size),
        outlived=risk.outlived,
        causes=risk.causes,
        waiting=risk.waiting,
        cost=risk.newest_cost,
        bounded_mismatches={str(reason): count for reason, count in risk.mismatches.items()},
        rate=arithmetic(
            risk.closed_bytes,
            None if risk.rate is None else risk.rate * 1000,
            expiration_ms=settings.producer_expiration,
            delivery_timeout_ms=settings.delivery_timeout,
        ),
        has_headers=survey.has_headers,
        **_at_worst(risk.worst),
    )
    return PartitionRow(survey.replica, numbers)


class _Worst(TypedDict):
    """The fields of PartitionRisk that describe the worst boundary."""

    at: int | None
    exposure: Exposure | None
    open_transactions: int | None
    crossing: Crossing | None


def _at_worst(worst: RiskedBoundary | None) -> _Worst:
    if worst is None:
        return _Worst(at=None, exposure=None, open_transactions=None, crossing=None)
    return _Worst(
        at=worst.offset,
        exposure=worst.exposure,
        open_transactions=worst.open_transactions,
        crossing=worst.crossing,
    )


def arithmetic(
    segment_bytes: float, bytes_per_second: float | None, *, expiration_ms: int | None, delivery_timeout_ms: int
) -> WritingRate:
    """Return the numbers that KIP-952 derives from the segment size and the write rate of a log."""
    segment_ms = _quotient(1000 * segment_bytes, bytes_per_second) if segment_bytes else None
    per_expiration = _quotient(expiration_ms, segment_ms) if expiration_ms else None
    return WritingRate(
        bytes_per_second=_rounded(bytes_per_second),
        segment_ms=_rounded(segment_ms),
        segments_per_expiration=None if per_expiration is None else round(per_expiration, 1),
        automatic_retry_bytes_per_second=_rounded(_quotient(1000 * segment_bytes, delivery_timeout_ms)),
    )


def _quotient(dividend: float, divisor: float | None) -> float | None:
    if not divisor:
        return None
    return dividend / divisor


def _rounded(value: float | None) -> int | None:
    if value is None:
        return None
    return round(value)


# A total over partitions sums the columns ADDED, and takes the maximum of the columns GREATEST.
ADDED = (
    *("waiting_segments", "lost", "degraded", "doubled", "doubled_automatically", "doubled_records", "doubled_bytes"),
    *("aborted_records", "untiered_bytes", "grows_by_bytes", "full_bytes", "full_ms", "bounded_bytes", "bounded_ms"),
    *("incremental_bytes", "incremental_ms"),
)
GREATEST = ("exposed_ms", "wait_ms")


def sums_of(rows: Iterable[Mapping[str, int | None]]) -> dict[str, int]:
    """Return the totals of the rows by column: sums for ADDED, maxima for GREATEST. None counts as 0."""
    sums = dict.fromkeys((*ADDED, *GREATEST), 0)
    for row in rows:
        for name in ADDED:
            sums[name] += row[name] or 0
        for name in GREATEST:
            sums[name] = max(sums[name], row[name] or 0)
    return sums


@dataclass(slots=True)
class RiskTotals:
    """Sums over partitions."""

    partitions: int  # number of examined partitions
    blocked: int  # partitions with a segment whose end has no right snapshot
    unread: int  # partitions that cannot be replayed to their end
    endless: int  # partitions whose exposure does not end by itself
    by_wait: Mapping[str, int]  # number of partitions by Wait
    sums: Mapping[str, int]

    @classmethod
    def of(cls, rows: Sequence[PartitionRow]) -> RiskTotals:
        """Return the sums over partitions."""
        blocked = unread = endless = 0
        waits: Counter[str] = Counter()
        for row in rows:
            blocked += row.risk.at is not None
            unread += row.risk.alive is None
            endless += row.risk.is_endless
            waits[str(row.risk.waiting.wait)] += 1
        return cls(len(rows), blocked, unread, endless, dict(sorted(waits.items())), sums_of(map(members, rows)))

    def sentences(self) -> dict[str, str]:
        """Return a sentence for each question of `simulate --risk`, by the name of the question."""
        if not self.blocked:
            return {"risk": f"every closed segment of {count_of(self.partitions, 'partition')} has a right snapshot"}
        return {
            "empty_snapshots": self._empty(),
            "waiting": self._waiting(),
            "archiving_none": self._replay(),
        }

    def _empty(self) -> str:
        sums = self.sums
        said = []
        if sums["lost"]:
            ends = f"brokers drop the last of these producers in {human_duration(sums['exposed_ms'])}"
            if self.endless:
                ends = "brokers never drop some of these producers"
            said.append(f"would lack {count_of(sums['lost'], 'producer')} ({ends})")
        if sums["degraded"]:
            said.append(f"would have incomplete entries of {count_of(sums['degraded'], 'producer')}")
        if sums["doubled"]:
            said.append(
                f"would write up to {count_of(sums['doubled_records'], 'record')} of "
                f"{count_of(sums['doubled'], 'producer')} twice if they were sent again "
                f"({sums['doubled_automatically']} of these producers may retry automatically)"
            )
        if sums["aborted_records"]:
            said.append(f"would give consumers {count_of(sums['aborted_records'], 'aborted record')} as if committed")
        if not said:
            said.append(
                "would lack nothing: every producer below the snapshot offset has written again, or has expired"
            )
        text = "a follower that starts with an empty snapshot " + "; ".join(said)
        if not self.unread:
            return text
        return f"{text}; {count_of(self.unread, 'partition')} cannot be replayed to the end of their logs"

    def _waiting(self) -> str:
        sums = self.sums
        start = (
            f"{count_of(sums['waiting_segments'], 'segment')} ({human_bytes(sums['untiered_bytes'])}) cannot be tiered"
        )
        stuck = self.by_wait.get(str(Wait.STUCK_TIERING_ENABLED), 0)
        if stuck:
            return f"{start}; tiering is enabled, so the disk keeps them: local retention deletes only tiered segments"
        end = f"{start}; retention deletes the last of these segments in {human_duration(sums['wait_ms'])}"
        end += f", and brokers write {human_bytes(sums['grows_by_bytes'])} more until then"
        endless = self.by_wait.get(str(Wait.FOR_EVER), 0)
        if endless == self.blocked:
            return f"{start}; no retention ever deletes them"
        if not endless:
            return end
        return f"{end}; no retention ever deletes the segments of {count_of(endless, 'partition')}"

    def _replay(self) -> str:
        ways = {
            "full": "in full",
            "bounded": "within the expiration",
            "incremental": "from the nearest snapshot on",
        }
        read = [
            f"{human_bytes(self.sums[f'{way}_bytes'])} {words} ({human_duration(self.sums[f'{way}_ms'])})"
            for way, words in ways.items()
        ]
        return f"a replay reads {', '.join(read)}"
