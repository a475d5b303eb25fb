"""What became of all partitions of one host that were to be tiered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.remote_storage.upload.tier_host import HostPartition
from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.readiness.exit_codes import exit_code_of, exit_code_of_all
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.report.run_info import RunCounts
from tiersnap.snapshot.tables.facts import Row
from tiersnap.snapshot.tables.schemas import READINESS


@dataclass(frozen=True)
class HostOutcome:
    """The partitions, in the order in which they were looked at; `of_log_dirs` was found before any of them."""

    partitions: tuple[HostPartition, ...]
    of_log_dirs: tuple[Finding, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """What is damaged or may not be read."""
        return [*self.of_log_dirs, *self._of_partitions()]

    def _of_partitions(self) -> Iterator[Finding]:
        return (
            Finding(FindingKind(row["finding_kind"]), row["path"], row["position"], row["message"])
            for each in self.partitions
            for row in each.findings
        )

    @property
    def errors(self) -> list[TiersnapError]:
        """What failed."""
        return [error for each in self.partitions for error in each.errors]

    @property
    def copied(self) -> list[Row]:
        """Rows of tier_rows.TIERED of the segments that are now in remote storage."""
        return [row for each in self.partitions for row in each.tiered if row["state"] == "COPY_SEGMENT_FINISHED"]

    @property
    def copies_finished(self) -> int:
        """Copies that other attempts had made, and that count since: nothing was sent for them."""
        return sum(not row["bytes"] for row in self.copied)

    @property
    def encryption(self) -> Counter[str]:
        """Partitions with something to tier, by what manifests show (listed.Encryption)."""
        wanted = (each for each in self.partitions if each.encryption is not None and _is_to_tier(each))
        return Counter(str(each.encryption) for each in wanted)

    @property
    def leftovers_removed(self) -> int:
        """Objects that ended attempts had left."""
        return sum(each.leftovers_removed for each in self.partitions)

    @property
    def counts(self) -> RunCounts:
        """What was written by this run; a copy that was finished without a byte is none."""
        sent = [row["bytes"] for row in self.copied if row["bytes"]]
        return RunCounts(
            snapshots_written=sum(each.snapshots_written for each in self.partitions),
            snapshots_mended=sum(each.snapshots_mended for each in self.partitions),
            segments_tiered=len(sent),
            bytes_tiered=sum(sent),
        )

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Segments by verdict."""
        return Counter(Verdict(row["verdict"]) for each in self.partitions for row in each.readiness)

    def file_of(self, verdict: Verdict) -> str:
        """Path of the first segment with the verdict, FILE without one."""
        found = (
            segment.log.path
            for each in self.partitions
            for row, segment in zip(each.readiness, each.partition.segments, strict=False)
            if row["verdict"] == verdict
        )
        return next(found, "FILE")

    def readiness(self) -> Iterator[pa.RecordBatch]:
        """Rows of READINESS, a batch a partition that has any."""
        for each in self.partitions:
            if each.readiness:
                yield pa.RecordBatch.from_pylist(each.readiness, schema=READINESS)

    def exit_code(self, *, apply: bool) -> ExitCode:
        """What is damaged, could not be written or read, or was refused although it was to be tiered; else OK."""
        return exit_code_of_all(self.findings, self.errors, exit_code_of(self.verdicts, apply=apply))


def _is_to_tier(partition: HostPartition) -> bool:
    wanted = (Verdict.READY, Verdict.ENCRYPTED_REMOTE, Verdict.MISSING_SNAPSHOT)
    return bool(partition.tiered) or any(row["verdict"] in wanted for row in partition.readiness)
