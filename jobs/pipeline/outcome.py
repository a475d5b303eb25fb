"""The outcome of a run, as the driver knows it: counts, and a few rows to show."""

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
from tiersnap.snapshot.report.exactly_once import ForgetfulReplica
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_info import RunCounts, RunInfo


@dataclass
class RunOutcome:
    """Counts of one run; `findings`, `errors` and `forgetful` hold the first few, their counts are of all."""

    partitions: int = 0
    segments: int = 0
    partitions_replayed: int = 0
    counts: RunCounts = field(default_factory=RunCounts)  # of what the run did
    copies_finished: int = 0  # copies that other attempts had made, and that count since; nothing was sent
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    forgetful_count: int = 0
    forgetful: list[ForgetfulReplica] = field(default_factory=list)
    unknown_topics: tuple[str, ...] = ()  # for which an id was given, and which are in no source
    kinds: set[FindingKind] = field(default_factory=set)  # of all findings, but for files that were deleted meanwhile
    errors: list[TiersnapError] = field(default_factory=list)
    error_codes: Counter[ExitCode] = field(default_factory=Counter)  # all errors by their code
    lost_count: int = 0  # partitions that lost offsets in remote storage: their errors stay whatever a run writes
    has_rows: bool = False  # rows were appended to the tables; of a plan, `--apply` appends some
    has_leftovers: bool = False  # ended attempts left objects of some partition
    encryption_unknown: int = 0  # partitions of which no manifest shows whether the plugin encrypts
    verdicts: dict[Verdict, int] = field(default_factory=dict)  # segments, after the run
    # Segments to upload of collected sources, by the log directory from which alone they can be tiered
    ready_elsewhere: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # by stage
    published: Published = field(default_factory=lambda: Published(()))  # nothing of a run that does not publish
    info: RunInfo | None = None
    report: Report | None = None

    @property
    def error_count(self) -> int:
        """Number of all errors."""
        return self.error_codes.total()

    @property
    def may_end_better(self) -> bool:
        """Return whether there is an error that another run may not meet."""
        return self.error_count > self.lost_count

    def problems(self, settings: RunSettings) -> Iterator[Problem]:
        """Yield what was met; of a run without uploads only what one with them does not clear."""
        yield from self.kinds
        yield from +self.error_codes
        cleared = () if settings.uploads else cleared_by_apply(settings.replay)
        yield from problems_of(self.verdicts, cleared=cleared)
        yield from self.published.problems()
        if self.forgetful_count:
            yield OtherProblem.REPLICA_WITHOUT_PRODUCERS

    def as_facts(self) -> dict[str, object]:
        """Counts as plain data, for lineage."""
        return {**asdict(self.counts), "verdicts": {str(verdict): count for verdict, count in self.verdicts.items()}}

    @property
    def ready_here(self) -> int:
        """Return how many segments that `--apply` uploads lie in sources that were not collected."""
        return sum(self.verdicts.get(each, 0) for each in TO_UPLOAD) - sum(self.ready_elsewhere.values())

    @property
    def did_nothing(self) -> bool:
        """Return whether the run wrote no object and committed no version."""
        counts = self.counts
        return not (counts.delta_commits or counts.snapshots_written or counts.segments_uploaded or self.published.told)
