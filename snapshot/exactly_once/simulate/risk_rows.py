"""Makes the rows of `simulate --risk`, and adds them up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.snapshot.exactly_once.simulate.risk_kinds import (
    BoundaryRow,
    PartitionRisk,
    PartitionRow,
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
    """Yield rows of the boundaries, ascending."""
    for each in risk.boundaries:
        yield BoundaryRow(risk.survey.replica, each)


def partition_row(risk: RiskedPartition) -> PartitionRow:
    """Return the row of a partition."""
    survey, settings, worst = risk.survey, risk.settings, risk.worst
    leader = survey.leader
    alive = None if leader is None else leader.live(settings.broker_expiry)
    numbers = PartitionRisk(
        len(survey.segments),
        sum(each.size_bytes for each in survey.segments),
        None if alive is None else int(alive.entries.size),
        risk.outlived,
        risk.causes,
        None if worst is None else worst.offset,
        None if worst is None else worst.exposure,
        None if worst is None else worst.open_transactions,
        None if worst is None else worst.crossing,
        risk.waiting,
        risk.newest_cost,
        {str(reason): count for reason, count in risk.mismatches.items()},
        arithmetic(
            risk.closed_bytes,
            None if risk.rate is None else risk.rate * 1000,
            expiration_ms=settings.producer_expiration,
            delivery_timeout_ms=settings.delivery_timeout,
        ),
        survey.has_headers,
    )
    return PartitionRow(survey.replica, numbers)


def arithmetic(
    segment_bytes: float, bytes_per_second: float | None, *, expiration_ms: int | None, delivery_timeout_ms: int
) -> WritingRate:
    """Return KIP-952's arithmetic for a log that takes so many bytes a second."""
    segment_ms = 1000 * segment_bytes / bytes_per_second if bytes_per_second and segment_bytes else None
    return WritingRate(
        None if bytes_per_second is None else round(bytes_per_second),
        None if segment_ms is None else round(segment_ms),
        round(expiration_ms / segment_ms, 1) if segment_ms and expiration_ms else None,
        round(1000 * segment_bytes / delivery_timeout_ms) if delivery_timeout_ms else None,
    )


ADDED = (
    *("waiting_segments", "lost", "degraded", "doubled", "doubled_automatically", "doubled_records", "doubled_bytes"),
    *("aborted_records", "untiered_bytes", "grows_by_bytes", "full_bytes", "full_ms", "bounded_bytes", "bounded_ms"),
    *("incremental_bytes", "incremental_ms"),
)
GREATEST = ("exposed_ms", "wait_ms")


@dataclass(slots=True)
class RiskTotals:
    """Sums over partitions."""

    # All that were looked at; `blocked` of them have a segment without a right snapshot, `unread` cannot be replayed to
    # their end.
    partitions: int
    blocked: int
    unread: int
    endless: int  # whose exposure never ends by itself
    by_wait: Mapping[str, int]  # partitions by state of Wait
    sums: Mapping[str, int]

    @classmethod
    def of(cls, rows: Sequence[PartitionRow]) -> RiskTotals:
        """Add up partitions."""
        columns = [members(row) for row in rows]

        def numbers(name: str) -> list[int]:
            return [row[name] for row in columns if row[name] is not None]

        exposures = [row.risk.exposure for row in rows if row.risk.exposure is not None]
        waits = [str(row.risk.waiting.wait) for row in rows]
        return cls(
            len(rows),
            sum(row.risk.at is not None for row in rows),
            sum(row.risk.alive is None for row in rows),
            sum(bool(each.lost) and each.exposed_ms is None for each in exposures),
            {wait: waits.count(wait) for wait in sorted(set(waits))},
            {
                **{name: sum(numbers(name)) for name in ADDED},
                **{name: max(numbers(name), default=0) for name in GREATEST},
            },
        )

    def sentences(self) -> dict[str, str]:
        """Return a sentence for each question, by its name."""
        if not self.blocked:
            return {"risk": f"no closed segment of {count_of(self.partitions, 'partition')} lacks a right snapshot"}
        return {
            "empty_snapshots": self._empty(),
            "waiting": self._waiting(),
            "archiving_none": self._replay(),
        }

    def _empty(self) -> str:
        sums = self.sums
        said = []
        if sums["lost"]:
            ends = "never by itself" if self.endless else f"in {human_duration(sums['exposed_ms'])}"
            said.append(f"would not know {count_of(sums['lost'], 'producer')}, which ends {ends}")
        if sums["degraded"]:
            said.append(f"would know less than the leader of {count_of(sums['degraded'], 'producer')}")
        if sums["doubled"]:
            said.append(
                f"would append up to {count_of(sums['doubled_records'], 'record')} of {sums['doubled']} once more if "
                f"they were sent again, {sums['doubled_automatically']} of these by clients on their own"
            )
        if sums["aborted_records"]:
            said.append(f"would serve {count_of(sums['aborted_records'], 'aborted record')} as committed")
        if not said:
            said.append("would lack nothing: all producers below it have written again, or are dropped by now")
        text = "a follower that began with one " + "; ".join(said)
        return f"{text}; {count_of(self.unread, 'partition')} cannot be replayed to their end" if self.unread else text

    def _waiting(self) -> str:
        sums = self.sums
        start = (
            f"{count_of(sums['waiting_segments'], 'segment waits', 'segments wait')}, "
            f"{human_bytes(sums['untiered_bytes'])} cannot be tiered"
        )
        stuck = self.by_wait.get(str(Wait.STUCK_TIERING_ENABLED), 0)
        if stuck:
            return f"{start}; tiering is enabled, so waiting never ends: what cannot be copied is not deleted"
        end = f"{start}; retention removes the last of them in {human_duration(sums['wait_ms'])}"
        end += f", and {human_bytes(sums['grows_by_bytes'])} more is written until then"
        endless = self.by_wait.get(str(Wait.FOR_EVER), 0)
        if endless == self.blocked:
            return f"{start}; no retention ever removes them"
        return f"{end}; {count_of(endless, 'partition')} would wait for ever" if endless else end

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
