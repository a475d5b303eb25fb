"""The outcome of a run on the driver: counts, and a few rows to print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.publish.publish import Published
from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.gate.verdict import TO_UPLOAD, Verdict, cleared_by_apply, problems_of
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_info import RunCounts, RunInfo


@dataclass
class RunOutcome:
    """Counts of one run. Lists of findings, errors and replicas contain the first few; their counts are complete."""

    partitions: int = 0  # listed
    segments: int = 0  # listed
    partitions_replayed: int = 0
    counts: RunCounts = field(default_factory=RunCounts)  # changes that the run made
    copies_finished: int = 0  # complete remote segments of earlier attempts that the run finished without an upload
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    replicas_without_producers_count: int = 0  # replicas that lost active producers
    replicas_without_producers: list[ReplicaWithoutProducers] = field(default_factory=list)
    unknown_topics: tuple[str, ...] = ()  # topics of --topic-id that no source has
    kinds: set[FindingKind] = field(default_factory=set)  # kinds of all findings
    errors: list[TiersnapError] = field(default_factory=list)
    error_codes: Counter[ExitCode] = field(default_factory=Counter)  # number of all errors by exit code
    lost_count: int = 0  # partitions that lost offsets in remote storage; another run would have the same errors
    has_rows: bool = False  # the run appended rows to the tables; in a plan, `--apply` would append rows
    has_leftovers: bool = False  # a partition has leftovers in remote storage
    encryption_unknown: int = 0  # partitions without a manifest that shows whether the plugin encrypts
    verdicts: dict[Verdict, int] = field(default_factory=dict)  # number of segments after the run
    # Segments to upload that this run cannot read: their number by the log directory on the collecting host.
    ready_elsewhere: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # duration by stage
    published: Published = field(default_factory=lambda: Published(()))  # empty if the run does not publish
    info: RunInfo | None = None
    report: Report | None = None

    @property
    def error_count(self) -> int:
        """Return the number of all errors."""
        return self.error_codes.total()

    @property
    def may_end_better(self) -> bool:
        """Return whether the run had an error besides lost offsets. A new run may succeed after such an error."""
        return self.error_count > self.lost_count

    def problems(self, settings: RunSettings) -> Iterator[Problem]:
        """Yield the problems from which the exit code follows. For a plan, leave out verdicts that `--apply` clears."""
        yield from self.kinds
        yield from +self.error_codes
        cleared = () if settings.uploads else cleared_by_apply(settings.replay)
        yield from problems_of(self.verdicts, cleared=cleared)
        yield from self.published.problems()
        if self.replicas_without_producers_count:
            yield OtherProblem.REPLICA_WITHOUT_PRODUCERS

    def as_facts(self) -> dict[str, object]:
        """Return the counts as plain data, for lineage events."""
        return {**asdict(self.counts), "verdicts": {str(verdict): count for verdict, count in self.verdicts.items()}}

    @property
    def ready_here(self) -> int:
        """Return the number of segments to upload whose files this run can read."""
        return sum(self.verdicts.get(each, 0) for each in TO_UPLOAD) - sum(self.ready_elsewhere.values())

    @property
    def did_nothing(self) -> bool:
        """Return whether the run wrote no object, published no segment and committed no table version."""
        counts = self.counts
        return not (
            counts.delta_commits or counts.snapshots_written or counts.segments_uploaded or self.published.segment_ids
        )
