"""The partitions of a host's log directories, surveyed one after the other and held against other replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskedPartition, RiskSettings, partition_risk
from tiersnap.snapshot.exactly_once.simulate.replica_disagreement import disagreement_row
from tiersnap.snapshot.exactly_once.simulate.survey import survey_log
from tiersnap.snapshot.log.disk_findings import findings_of
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.log.selection import NamedLogDir, named


@dataclass
class HostRisk:
    """Reads partition by partition, and remembers which.

    Attributes:
        findings: what is damaged or may not be read.
        never_tiered: number of partitions that are left out, since their topics are never tiered.
        not_compared: number of partitions that are left out, since what came before their files is in remote storage.
    """

    log_dirs: Sequence[NamedLogDir]
    check_crc: bool = True
    findings: list[Finding] = field(default_factory=list)
    never_tiered: int = 0
    not_compared: int = 0
    _partitions: list[tuple[NamedLogDir, Partition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.findings += findings_of(self.log_dirs)

    def risks(
        self, partitions: Iterable[tuple[NamedLogDir, Partition]], settings: RiskSettings
    ) -> Iterator[RiskedPartition]:
        """Read the logs, one after the other."""
        for each, partition in partitions:
            survey, findings = survey_log(each.log_dir.filesystem, each.uri, partition, check_crc=self.check_crc)
            self.findings.extend(findings)
            self._partitions.append((each, partition))
            if survey.never_tiered:
                self.never_tiered += 1
            elif partition.begins_in_remote_storage:
                self.not_compared += 1
            else:
                yield partition_risk(survey, settings)

    def disagreements(self, replica: str) -> Iterator[dict[str, object]]:
        """Return a `disagreement_row`, with `replica`, of each partition read that is in that directory as well."""
        other = open_log_dir(replica)
        ours = {(each.topic, each.partition): (place, each) for place, each in self._partitions}
        for theirs in named(other, ours.keys()):
            place, mine = ours[theirs.topic, theirs.partition]
            row = disagreement_row((place.log_dir.filesystem, mine), (other.filesystem, theirs))
            yield {"replica": replica, **row}
