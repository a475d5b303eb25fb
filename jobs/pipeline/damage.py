"""Find damaged folders and segments among those to decode, as `scan` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline import decoding
from tiersnap.jobs.pipeline.kept import Keep
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.findings import Finding, FindingKind, exit_code_of_kinds
from tiersnap.snapshot.tables.schemas import PARTITION_KEY, SEGMENT_KEY
from tiersnap.snapshot.tasks.decode_segments import DecodeSegments

# `run` and `decode` number their rows; nobody keeps these.
_NO_RUN = 0
_MOST_SHOWN = 1_000


@dataclass(frozen=True)
class Damage:
    """The damage that was found.

    Attributes:
        findings: the first of them, in the order of the log.
        counts: of all, by kind.
        legacy_count: sound segments that end with entries of magic 0 or 1, which have no rows.
    """

    findings: Sequence[Finding] = ()
    counts: Mapping[FindingKind, int] = field(default_factory=dict)
    legacy_count: int = 0

    @property
    def exit_code(self) -> ExitCode:
        """5 for damage, 6 for what may not be read."""
        return exit_code_of_kinds(self.counts)

    @property
    def more(self) -> int:
        """Return how many are not among `findings`."""
        return sum(self.counts.values()) - len(self.findings)

    def behind(self, findings: Sequence[Finding]) -> Damage:
        """The same with findings before it, all of them."""
        counts = Counter(self.counts)
        counts.update(finding.kind for finding in findings)
        return replace(self, findings=[*findings, *self.findings], counts=counts)


def work_of(wanted: DataFrame) -> decoding.Work:
    """Return the cost of reading some WANTED rows."""
    totals = wanted.agg(F.count("*").alias("segments"), F.sum("size_bytes").alias("bytes")).collect()[0]
    return decoding.Work(totals.segments, totals.bytes or 0)


def damage(listed: DataFrame, unread: DataFrame, keep: Keep, *, check_crc: bool) -> tuple[Damage, DataFrame]:
    """Findings of a listing, and of segments whose rows end before the file does: those are read again for the reason.

    Gives also the rows of all findings, with PARTITION_KEY; they are cached.

    Args:
        listed: LISTED rows.
        unread: WANTED rows of batches.unread_segments. In the active segment a tail that was being written is none.
    """
    work, rows, legacy_count = work_of(unread), _of_folders(listed), 0
    if work.segments:
        ends = keep(decoding.decode(unread, DecodeSegments(check_crc, _NO_RUN), work).where("part = 0"))
        legacy_count = ends.where("finding_kind is null and legacy_count > 0").count()
        rows = rows.unionByName(_of_segments(ends))
    rows = keep(rows)
    counts = {FindingKind(row.kind): row["count"] for row in rows.groupBy("kind").count().collect()}
    first = rows.orderBy(*SEGMENT_KEY, "path", "position").limit(_MOST_SHOWN).collect() if counts else []
    findings = [Finding(FindingKind(row.kind), row.path, row.position, row.message) for row in first]
    return Damage(findings, counts, legacy_count), rows


def _of_folders(listed: DataFrame) -> DataFrame:
    rows = listed.select(*PARTITION_KEY, F.explode("findings").alias("finding"))
    return rows.select(*PARTITION_KEY, F.lit(-1).cast("long").alias("base_offset"), "finding.*")


def _of_segments(ends: DataFrame) -> DataFrame:
    return ends.where("finding_kind is not null").select(
        *SEGMENT_KEY,
        F.col("finding_kind").alias("kind"),
        F.format_string("%s/%s-%d/%020d.log", "log_dir", "topic", "partition", "base_offset").alias("path"),
        F.col("finding_position").alias("position"),
        F.col("finding_message").alias("message"),
    )
