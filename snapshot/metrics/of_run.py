"""Prometheus samples of `run`, `scan`, `doctor` and `maintain remove-orphans`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.verdict import WAITING, Verdict
from tiersnap.snapshot.host.scanned import Scanned
from tiersnap.snapshot.metrics.prometheus_text import HELP, Sample
from tiersnap.snapshot.report.model import Count, Report

# Exit codes of a run that finished its work. The gate may have refused segments, or the run may have found damage.
_SUCCESS = frozenset({ExitCode.OK, ExitCode.GATE_REFUSED, ExitCode.DATA_CORRUPT})

Labels = tuple[tuple[str, str], ...]


@dataclass
class Standing:
    """Counts of segments, findings and lost producers, by labels.

    The labels are `topic`, and `partition` if each partition has its own samples.
    """

    verdicts: dict[Labels, dict[Verdict, Count]] = field(default_factory=dict)
    findings: dict[Labels, int] = field(default_factory=dict)
    lost_producers: dict[Labels, int] = field(default_factory=dict)

    def add(self, labels: Labels, verdicts: Mapping[Verdict, Count], findings: int, lost_producers: int = 0) -> None:
        """Add the counts of a topic or partition to the counts under the same labels."""
        known = self.verdicts.setdefault(labels, {})
        for verdict, count in verdicts.items():
            known[verdict] = known.get(verdict, Count()) + count
        self.findings[labels] = self.findings.get(labels, 0) + findings
        self.lost_producers[labels] = self.lost_producers.get(labels, 0) + lost_producers

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of all labels.

        A verdict without segments has no sample. The copy lag has a sample even if it is 0, so that an alert on it
        ends.
        """
        for labels, verdicts in self.verdicts.items():
            named = dict(labels)
            for verdict, count in verdicts.items():
                yield Sample("tiersnap_segments", count.segments, {**named, "verdict": str(verdict)})
                yield Sample("tiersnap_segment_bytes", count.bytes, {**named, "verdict": str(verdict)})
            waiting = sum((count for verdict, count in verdicts.items() if verdict in WAITING), Count())
            yield Sample("tiersnap_copy_lag_segments", waiting.segments, named)
            yield Sample("tiersnap_copy_lag_bytes", waiting.bytes, named)
            yield Sample("tiersnap_findings", self.findings[labels], named)
            yield Sample("tiersnap_lost_producers", self.lost_producers[labels], named)


def _labels_of(topic: str, partition: int, *, by_partition: bool) -> Labels:
    if by_partition:
        return ("topic", topic), ("partition", str(partition))
    return (("topic", topic),)


def _standing_of(report: Report, *, by_partition: bool) -> Standing:
    standing = Standing()
    lost_producers: Counter[tuple[str, int]] = Counter()
    for each in report.replicas_without_producers:
        lost_producers[each.topic, each.partition] += each.count
    for topic in report.topics:
        for part in topic.partitions:
            lost = lost_producers.pop((topic.topic, part.partition), 0)
            labels = _labels_of(topic.topic, part.partition, by_partition=by_partition)
            standing.add(labels, part.verdicts, part.findings, lost)
    return standing


def of_run(
    report: Report,
    exit_code: ExitCode,
    *,
    errors: int,
    seconds: Mapping[str, float] | None = None,
    by_partition: bool = False,
) -> Iterator[Sample]:
    """Yield the samples of a run: the state of all segments, and the work that the run did.

    Args:
        errors: number of tasks that failed.
        seconds: durations by stage.
    """
    run = report.run
    yield from _standing_of(report, by_partition=by_partition).samples()
    for name, value in asdict(run).items():
        if f"tiersnap_last_run_{name}" in HELP:
            yield Sample(f"tiersnap_last_run_{name}", value)
    yield Sample("tiersnap_last_run_errors", errors)
    yield from of_ended(exit_code, started_at=run.started_at, finished_at=run.finished_at, seconds=seconds)


def of_ended(
    exit_code: ExitCode, *, started_at: int, finished_at: int, seconds: Mapping[str, float] | None = None
) -> Iterator[Sample]:
    """Yield the duration, end time and exit code of a command that ended.

    Args:
        started_at, finished_at: ms since the epoch.
        seconds: durations by stage.
    """
    ended = finished_at / 1000
    for stage, value in {**(seconds or {}), "all": (finished_at - started_at) / 1000}.items():
        yield Sample("tiersnap_last_run_duration_seconds", value, {"stage": stage})
    yield Sample("tiersnap_last_run_timestamp_seconds", ended)
    yield Sample("tiersnap_last_run_exit_code", int(exit_code))
    if exit_code in _SUCCESS:
        yield Sample("tiersnap_last_success_timestamp_seconds", ended)
    yield Sample("tiersnap_build_info", 1, {"version": __version__})


def of_doctor(exit_code: ExitCode, started_at: int, hung: int | None) -> Iterator[Sample]:
    """Yield the samples of a `doctor` command that ends now.

    Args:
        started_at: ms since the epoch.
        hung: number of hung copies; None without a cluster.
    """
    if hung is not None:
        yield Sample("tiersnap_hung_copies", hung)
    yield from of_ended(exit_code, started_at=started_at, finished_at=time.time_ns() // 1_000_000)


def of_orphans(kinds: Iterable[str], found: Iterable[tuple[str, int]]) -> Iterator[Sample]:
    """Yield number and bytes of the orphans of each kind in `kinds`, also if both are 0.

    Args:
        kinds: all kinds of orphans.
        found: kind and size in bytes of each orphan.
    """
    counts = {kind: Count() for kind in kinds}
    for kind, size in found:
        counts[kind] += Count(1, size)
    for kind, count in counts.items():
        yield Sample("tiersnap_orphans", count.segments, {"kind": kind})
        yield Sample("tiersnap_orphan_bytes", count.bytes, {"kind": kind})


class ScanMetrics:
    """Counts of scanned segments, as samples.

    Attributes:
        by_partition: whether to give samples per partition instead of per topic.
    """

    def __init__(self, *, by_partition: bool) -> None:
        self.by_partition = by_partition
        self._standing = Standing()
        self._started = time.time_ns() // 1_000_000

    def add(self, scanned: Scanned) -> None:
        """Add the segments, findings and lost producers of one partition."""
        examination = scanned.examination
        counts: dict[Verdict, Count] = {}
        for segment, readiness in zip(examination.segments, scanned.readiness, strict=True):
            counts[readiness.verdict] = counts.get(readiness.verdict, Count()) + Count(1, segment.size_bytes)
        partition = examination.partition
        lost_producers = 0 if scanned.lost_producers is None else scanned.lost_producers.count
        labels = _labels_of(partition.topic, partition.partition, by_partition=self.by_partition)
        self._standing.add(labels, counts, len(examination.findings), lost_producers)

    def samples(self, exit_code: ExitCode) -> Iterator[Sample]:
        """Yield all samples. Call this after the last partition."""
        yield from self._standing.samples()
        yield from of_ended(exit_code, started_at=self._started, finished_at=time.time_ns() // 1_000_000)
