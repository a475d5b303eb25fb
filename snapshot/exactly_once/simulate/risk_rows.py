"""The numbers as rows: one a partition, or one a boundary, alike from a log directory and from a warehouse.

Times named `_ms` are durations. `exposed_ms` is null if the exposure never ends by itself, `wait_ms` if no waiting
helps. Counts without a unit are producers or segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tiersnap.snapshot.exactly_once.simulate.exposure import Exposure
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskedBoundary, RiskedPartition
from tiersnap.snapshot.exactly_once.simulate.replay_cost import ReplayCost
from tiersnap.snapshot.exactly_once.simulate.retention_wait import Wait
from tiersnap.snapshot.exactly_once.simulate.sightings import Crossing
from tiersnap.snapshot.units import count_of, human_bytes, human_duration


def boundary_rows(risk: RiskedPartition) -> Iterator[dict[str, object]]:
    """Return rows of BOUNDARY_RISK, ascending."""
    for each in risk.boundaries:
        yield {
            **_key(risk),
            "offset": each.offset,
            "snapshot": str(each.verdict),
            "cause": None if each.cause is None else str(each.cause),
            **_at_offset(each),
            **_columns(ReplayCost, each.cost),
        }


def partition_row(risk: RiskedPartition) -> dict[str, object]:
    """Return a row of PARTITION_RISK."""
    survey, settings, worst = risk.survey, risk.settings, risk.worst
    leader = survey.leader
    alive = None if leader is None else leader.live(now=settings.now, expiration=settings.producer_expiration)
    per_second = None if risk.rate is None else risk.rate * 1000
    return {
        **_key(risk),
        "segments": len(survey.segments),
        "bytes": sum(each.size for each in survey.segments),
        "alive": None if alive is None else int(alive.entries.size),
        "outlived": risk.outlived,
        "causes": risk.causes,
        "at": None if worst is None else worst.offset,
        **_at_offset(worst),
        **asdict(risk.waiting),
        **_columns(ReplayCost, risk.newest_cost),
        "bounded_mismatches": {str(reason): count for reason, count in risk.mismatches.items()},
        **arithmetic(
            risk.closed_bytes,
            per_second,
            expiration_ms=settings.producer_expiration,
            delivery_timeout_ms=settings.delivery_timeout,
        ),
        "has_headers": survey.has_headers,
    }


def arithmetic(
    segment_bytes: float, bytes_per_second: float | None, *, expiration_ms: int | None, delivery_timeout_ms: int
) -> dict[str, float | None]:
    """Return KIP-952's arithmetic for a log, whose example is 5 MB/s, segments of 1 GB, a day.

    The time to write a segment, segments written until a producer expires, and the rate from which on clients may still
    send again by themselves with a segment in between. The KIP says that a producer has to be silent for about 15
    minutes around the boundary, and does not say that a client would have given up sending again by itself long before:
    after delivery.timeout.ms, two minutes by default.
    """
    segment_ms = 1000 * segment_bytes / bytes_per_second if bytes_per_second and segment_bytes else None
    return {
        "bytes_per_second": None if bytes_per_second is None else round(bytes_per_second),
        "segment_ms": None if segment_ms is None else round(segment_ms),
        "segments_per_expiration": round(expiration_ms / segment_ms, 1) if segment_ms and expiration_ms else None,
        "automatic_retry_bytes_per_second": (
            round(1000 * segment_bytes / delivery_timeout_ms) if delivery_timeout_ms else None
        ),
    }


def severity(row: dict[str, object]) -> tuple[object, ...]:
    """Return the order of rows of PARTITION_RISK or of BOUNDARY_RISK, the worst first."""
    counts = ("doubled", "lost", "degraded", "untiered_bytes")
    harm = (-int(str(row.get(name) or 0)) for name in counts)
    return (*harm, row["topic"], row["partition"], row["log_dir"], row.get("offset"))


def _key(risk: RiskedPartition) -> dict[str, object]:
    return {"log_dir": risk.survey.log_dir, "topic": risk.survey.topic, "partition": risk.survey.partition}


def _at_offset(boundary: RiskedBoundary | None) -> dict[str, object]:
    exposure, crossing, opened = (
        (None, None, None) if boundary is None else (boundary.exposure, boundary.crossing, boundary.opened)
    )
    return {**_columns(Exposure, exposure), **_columns(Crossing, crossing), "open_transactions": opened}


def names_of(kind: type[Any]) -> list[str]:
    """Return the names of the columns of a dataclass."""
    return [field.name for field in fields(kind) if field.name != "offset"]


def _columns(kind: type[Any], value: object) -> dict[str, object]:
    """Return the fields of a dataclass by name; all None without a value."""
    return {name: None if value is None else getattr(value, name) for name in names_of(kind)}


# Columns of PARTITION_RISK that are added up, and those of which the greatest counts.
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
    def of(cls, rows: list[dict[str, object]]) -> RiskTotals:
        """Add up rows of PARTITION_RISK."""

        def numbers(name: str) -> list[int]:
            return [int(str(row[name])) for row in rows if row[name] is not None]

        waits = [str(row["wait"]) for row in rows]
        return cls(
            len(rows),
            sum(row["at"] is not None for row in rows),
            sum(row["alive"] is None for row in rows),
            sum(bool(row["lost"]) and row["exposed_ms"] is None for row in rows),
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
