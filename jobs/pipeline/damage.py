"""Damage of log directories, and of segments whose decoded rows end before the end of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.cached import Keep
from tiersnap.jobs.pipeline.counts import finding_of
from tiersnap.jobs.pipeline.decoding import DecodeSegments, decode, work_of
from tiersnap.snapshot.log.findings import NOT_DAMAGED, Finding, FindingKind
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY

# The task needs a run number for its rows. These rows are not stored.
_NO_RUN = 0
_MOST_SHOWN = 1_000


@dataclass(frozen=True)
class Damage:
    """Findings of damage.

    Attributes:
        findings: the first findings, in the order of the log.
        counts: number of all findings by kind.
        legacy_count: number of undamaged segments that end with entries of magic 0 or 1. Such entries have no rows.
    """

    findings: Sequence[Finding] = ()
    counts: Mapping[FindingKind, int] = field(default_factory=dict)
    legacy_count: int = 0

    @property
    def kinds(self) -> list[FindingKind]:
        """Return the kinds of all findings."""
        return [kind for kind, count in self.counts.items() if count]

    @property
    def more(self) -> int:
        """Return the number of findings that `findings` does not contain."""
        return sum(self.counts.values()) - len(self.findings)

    @property
    def damaged(self) -> int:
        """Return the number of findings of damage. Kinds in NOT_DAMAGED, such as PERMISSION_DENIED, do not count."""
        return sum(count for kind, count in self.counts.items() if kind not in NOT_DAMAGED)

    def behind(self, findings: Sequence[Finding]) -> Damage:
        """Return a copy of this Damage with `findings` inserted before its own findings."""
        counts = Counter(self.counts)
        counts.update(finding.finding_kind for finding in findings)
        return replace(self, findings=[*findings, *self.findings], counts=counts)


def damage(listed: DataFrame, unread: DataFrame, keep: Keep, *, check_crc: bool) -> tuple[Damage, DataFrame]:
    """Return the damage of listed folders and of incompletely decoded segments, and a DataFrame of all findings.

    The DataFrame has PARTITION_KEY and is cached. An incomplete batch at the end of the active segment is no damage.

    Args:
        listed: the listed partitions (schema LISTED).
        unread: rows of batches.unread_segments. Tasks read these segments again.
        keep: caches a DataFrame.
        check_crc: check the CRC of each batch.
    """
    work, rows, legacy_count = work_of(unread), _of_folders(listed), 0
    if work.segments:
        ends = keep(decode(unread, DecodeSegments(check_crc, _NO_RUN), work).where("part = 0"))
        legacy_count = ends.where("finding_kind is null and legacy_count > 0").count()
        rows = rows.unionByName(_of_segments(ends))
    rows = keep(rows)
    counts = {FindingKind(row.finding_kind): row["count"] for row in rows.groupBy("finding_kind").count().collect()}
    if not counts:
        return Damage(legacy_count=legacy_count), rows
    first = rows.orderBy(*SEGMENT_KEY, "path", "position").limit(_MOST_SHOWN).collect()
    return Damage(list(map(finding_of, first)), counts, legacy_count), rows


def _of_folders(listed: DataFrame) -> DataFrame:
    rows = listed.select(*PARTITION_KEY, F.explode("findings").alias("finding"))
    return rows.select(*PARTITION_KEY, F.lit(-1).cast("long").alias("base_offset"), "finding.*")


def _of_segments(ends: DataFrame) -> DataFrame:
    return ends.where("finding_kind is not null").select(
        *SEGMENT_KEY,
        "finding_kind",
        F.format_string("%s/%s-%d/%020d.log", "log_dir", "topic", "partition", "base_offset").alias("path"),
        "position",
        "message",
    )
