"""The numbers of all partitions in a few sentences: one for each of KIP-952's rejected alternatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.simulate.retention_wait import Wait
from tiersnap.snapshot.units import count_of, human_bytes, human_duration

# Columns of PARTITION_RISK that are added up, and those of which the greatest counts.
ADDED = (
    *("waiting_segments", "lost", "degraded", "doubled", "doubled_automatically", "doubled_records", "doubled_bytes"),
    *("aborted_records", "untiered_bytes", "grows_by_bytes", "full_bytes", "full_ms", "bounded_bytes", "bounded_ms"),
    *("incremental_bytes", "incremental_ms"),
)
GREATEST = ("exposed_ms", "wait_ms")


@dataclass(slots=True)
class RiskTotals:
    """Sums over partitions.

    Attributes:
        partitions: all that were looked at; `blocked` of them have a segment without a right snapshot, `unread` cannot
            be replayed to their end.
        by_wait: partitions by state of Wait.
        endless: whose exposure never ends by itself.
    """

    partitions: int
    blocked: int
    unread: int
    endless: int
    by_wait: Mapping[str, int]
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
