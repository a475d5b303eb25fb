"""A history, sorted by what it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.history import Event, Key

_SLACK_MS = 1000  # a coordinator may tell the client before it writes the line


class Seen(NamedTuple):
    """One record as a consumer got it."""

    offset: int
    epoch: int
    key: Key


@dataclass
class Reading:
    """What one consumer read of a topic, in the order in which it came."""

    name: str
    topic: str
    isolation: str
    phase: str
    at: int
    records: list[Seen] = field(default_factory=list)

    @property
    def is_committed(self) -> bool:
        return self.isolation == "read_committed"


@dataclass
class Partition:
    """A topic's partition as it was in the end.

    Attributes:
        local_start, active: base offsets of the leader's first and last segment.
        stable: the last stable offset.
    """

    topic: str
    generation: int
    topic_id: str
    log_start: int
    log_end: int
    local_start: int
    active: int
    stable: int
    epochs: list[tuple[int, int]]

    def holds(self, epoch: int, offset: int) -> bool:
        """Whether the lineage has that offset under that leader epoch."""
        for (known, start), (_, end) in zip(self.epochs, [*self.epochs[1:], (-1, self.log_end)], strict=True):
            if known == epoch:
                return start <= offset < end
        return False


@dataclass
class Facts:
    """All of them.

    Attributes:
        clean: topics whose leaders were always in sync.
        sent: numbers [0, end) by (topic, generation, producer).
        acked: offset by (topic, Key without transaction), -1 for one that the client was not told.
        ended: how a transaction ended, by its name; "unknown" where its coordinator left out the marker.
        spans: topic, and when it began and ended (ms), of each transaction.
    """

    clean: set[str] = field(default_factory=set)
    sent: dict[tuple[str, int, str], int] = field(default_factory=dict)
    acked: dict[tuple[str, int, str, int], int] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    transactions: dict[tuple[str, int, str, int], str] = field(default_factory=dict)
    spans: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    skipped: list[tuple[int, str]] = field(default_factory=list)  # at, topic
    readings: dict[str, Reading] = field(default_factory=dict)
    trimmed: list[tuple[int, str, int, int]] = field(default_factory=list)  # at, topic, generation, before
    made: list[tuple[int, str, int]] = field(default_factory=list)  # at, topic, generation
    partitions: dict[str, Partition] = field(default_factory=dict)
    segments: list[Event] = field(default_factory=list)
    objects: list[Event] = field(default_factory=list)
    snapshots: list[Event] = field(default_factory=list)
    commands: list[Event] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Facts:
        facts = cls()
        for event in events:
            facts.take(event)
        for name, (topic, began, ended) in facts.spans.items():
            if any(of == topic and began <= at <= ended + _SLACK_MS for at, of in facts.skipped):
                facts.ended[name] = "unknown"
                facts.counts["transactions that Kafka ended without a marker"] += 1
        return facts

    def take(self, event: Event) -> None:
        """Add one event; one of an unknown type says nothing here."""
        match event["type"]:
            case "topic":
                self.made.append((event["at"], event["topic"], event["generation"]))
                if event["clean"]:
                    self.clean.add(event["topic"])
            case "sent":
                first, end = event["numbers"]
                name = event["topic"], event["generation"], event["producer"]
                self.sent[name] = max(end, self.sent.get(name, 0))
                if event["transaction"]:
                    self.transactions |= {(*name, number): event["transaction"] for number in range(first, end)}
                    self.spans.setdefault(event["transaction"], (event["topic"], event["at"], event["at"]))
            case "acked":
                for number, offset in event["records"]:
                    self.acked[event["topic"], event["generation"], event["producer"], number] = offset
            case "ended":
                self.ended[event["transaction"]] = event["end"]
                if span := self.spans.get(event["transaction"]):
                    self.spans[event["transaction"]] = (*span[:2], event["at"])
            case "skipped":
                self.skipped.append((event["at"], event["topic"]))
            case "began":
                fields = (event[name] for name in ("reading", "topic", "isolation", "phase", "at"))
                self.readings[event["reading"]] = Reading(*fields)
            case "read":
                records = (Seen(offset, epoch, Key.decode(key)) for offset, epoch, key in event["records"])
                self.readings[event["reading"]].records.extend(records)
            case "trimmed":
                self.trimmed.append((event["at"], event["topic"], event["generation"], event["before"]))
            case "partition":
                names = ("topic", "generation", "topic_id", "log_start", "log_end", "local_start", "active", "stable")
                epochs = [(epoch, start) for epoch, start in event["epochs"]]
                self.partitions[event["topic"]] = Partition(*(event[name] for name in names), epochs)
                self.counts[f"remote: offsets of {event['topic']}"] = event["local_start"] - event["log_start"]
            case "segment":
                self.segments.append(event)
            case "snapshot":
                self.snapshots.append(event)
                if not event["ours"] and event["folded"] not in (None, event["entries"]):
                    self.counts["snapshots of brokers that are not what the log says"] += 1
            case "object":
                self.objects.append(event)
            case "ran":
                self.commands.append(event)
            case "fault":
                self.counts[f"fault: {event['name']}"] += 1

    def of_topic(self, topic: str, *phases: str, committed: bool | None = None) -> Iterator[Reading]:
        """Readings of a topic; of all phases where none is given."""
        for reading in self.readings.values():
            if reading.topic != topic or (phases and reading.phase not in phases):
                continue
            if committed is None or reading.is_committed is committed:
                yield reading

    def final(self, topic: str, *, committed: bool) -> Reading | None:
        """The last reading of a topic, when nobody wrote any more."""
        return next(self.of_topic(topic, "final", committed=committed), None)

    def summary(self) -> list[str]:
        """What there was, in a few lines."""
        read = sum(len(reading.records) for reading in self.readings.values())
        ends = Counter(self.ended.values())
        codes = Counter(f"{each['words'][0]} {each['exit_code']}" for each in self.commands)
        kept = sum(each["state"] == "COPY_SEGMENT_FINISHED" for each in self.segments)
        ours = sum(each["ours"] for each in self.segments)
        return [
            f"{len(self.acked)} records acknowledged of {sum(self.sent.values())} sent, {read} read in "
            f"{len(self.readings)} readings; transactions: {dict(ends)}",
            f"{len(self.segments)} remote segments known, {ours} of tiersnap, {kept} kept; {len(self.objects)} files",
            f"commands and exit codes: {dict(sorted(codes.items()))}",
            *(f"{name}: {count}" for name, count in sorted(self.counts.items())),
        ]
