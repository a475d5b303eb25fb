"""What a run found and did, as the driver knows it: counts, and a few rows to tell of."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.report import Report, RunInfo


@dataclass
class Outcome:
    """Counts of one run; `findings` and `errors` hold the first few, `finding_count` and `error_count` all.

    Attributes:
        verdicts: segments by verdict, after the run.
        commits: Delta versions committed.
        seconds: by stage.
        unknown_topics: for which an id was given, and which are in no source.
        is_transient: all errors may pass, so that the same command may succeed later.
    """

    partitions: int = 0
    segments: int = 0
    segments_decoded: int = 0
    bytes_decoded: int = 0
    partitions_carried: int = 0
    snapshots_written: int = 0
    segments_tiered: int = 0
    bytes_tiered: int = 0
    commits: int = 0
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    unknown_topics: tuple[str, ...] = ()
    error_count: int = 0
    errors: list[str] = field(default_factory=list)
    is_transient: bool = True
    verdicts: dict[Verdict, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    info: RunInfo | None = None
    report: Report | None = None

    @property
    def did_nothing(self) -> bool:
        """Whether the run wrote no object and committed no version."""
        return self.commits == 0 and not self.snapshots_written and not self.segments_tiered
