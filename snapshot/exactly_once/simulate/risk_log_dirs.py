"""The risk of the partitions in a host's log directories, and the comparison with other replicas.

Snapshots of replicas may differ without harm. Replicas remove expired producers at different times, and a follower does
not check the sequences of the leader's batches. A lower log start offset on another replica does harm: after a
failover, clients that saw the higher log start report a data loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiersnap.snapshot.errors import CorruptSnapshotError
from tiersnap.snapshot.exactly_once.simulate.kinds import ReplicaDisagreement
from tiersnap.snapshot.exactly_once.simulate.partition_risk import RiskedPartition, RiskSettings, partition_risk
from tiersnap.snapshot.exactly_once.simulate.survey import survey_log
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import Partition, open_log_dir
from tiersnap.snapshot.log.log_start import LogStarts, log_start_of
from tiersnap.snapshot.log.selection import NamedLogDir, findings_of, named
from tiersnap.snapshot.replay.partition_replay import snapshot_reader

_Counts = tuple[int, int, int]


def disagreement(first: np.ndarray, second: np.ndarray) -> _Counts:
    """Return the differences between two snapshots (ENTRY_DTYPE, ascending producer id).

    Returns:
        The numbers of producers that only `first` has, that only `second` has, and that both have with other values.
    """
    in_second = np.isin(first["producer_id"], second["producer_id"], assume_unique=True)
    in_first = np.isin(second["producer_id"], first["producer_id"], assume_unique=True)
    differing = int((first[in_second] != second[in_first]).sum())
    return int((~in_second).sum()), int((~in_first).sum()), differing


def newest_disagreement(
    first: Mapping[int, np.ndarray], second: Mapping[int, np.ndarray]
) -> tuple[int, int | None, _Counts]:
    """Return the number of common offsets, the newest offset at which the snapshots differ, and the differences.

    The offset is None if the snapshots are equal at all common offsets.

    Args:
        first, second: entries (ENTRY_DTYPE, ascending producer id) by snapshot offset.
    """
    common = sorted(first.keys() & second.keys(), reverse=True)
    for offset in common:
        counts = disagreement(first[offset], second[offset])
        if any(counts):
            return len(common), offset, counts
    return len(common), None, (0, 0, 0)


def log_start_goes_back(leader: int | None, follower: int | None) -> bool:
    """Return whether the log start offset would go back if the follower became leader.

    If an offset is unknown (None), the result is False.
    """
    return leader is not None and follower is not None and follower < leader


def compare_replicas(
    replica: str, leader: tuple[FileSystem, Partition], follower: tuple[FileSystem, Partition]
) -> ReplicaDisagreement:
    """Return the differences between the leader's and the follower's snapshots of a partition.

    `compared` is the number of offsets at which both have a readable snapshot. `offset` is the newest of these offsets
    at which the snapshots differ, or None.

    Args:
        replica: log directory of the follower.
    """
    (_, first), (_, second) = leader, follower
    compared, offset, counts = newest_disagreement(_entries(*leader), _entries(*follower))
    leads, follows = log_start_of(first), log_start_of(second)
    goes_back = log_start_goes_back(leads, follows)
    at_leader = first.log_start_offset if leads is None else leads
    at_follower = second.log_start_offset if follows is None else follows
    shown = at_leader, at_follower
    return ReplicaDisagreement(replica, first.name, compared, offset, *counts, *shown, goes_back)


def _entries(filesystem: FileSystem, partition: Partition) -> dict[int, np.ndarray]:
    read = snapshot_reader(filesystem, partition)
    found: dict[int, np.ndarray] = {}
    for offset in partition.snapshots:
        try:
            data = read(offset)
            if data is not None:
                found[offset] = snapshot_file.decode(data)
        except (CorruptSnapshotError, OSError):
            continue  # an unreadable file is not compared here; `scan` reports it
    return found


@dataclass
class HostRisk:
    """A survey of several partitions. It keeps the list of partitions for `disagreements`."""

    log_dirs: Sequence[NamedLogDir]
    check_crc: bool = True
    findings: list[Finding] = field(default_factory=list)  # damaged or unreadable files
    never_tiered: int = 0  # number of partitions that are skipped because their topics are never tiered
    log_starts: LogStarts = field(default_factory=LogStarts)  # partitions that are skipped because of their log start
    _partitions: list[tuple[NamedLogDir, Partition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.findings += findings_of(self.log_dirs)

    def risks(
        self, partitions: Iterable[tuple[NamedLogDir, Partition]], settings: RiskSettings
    ) -> Iterator[RiskedPartition]:
        """Yield the risk of each partition, after one pass over its log."""
        for each, partition in partitions:
            survey, findings = survey_log(each.log_dir.filesystem, each.uri, partition, check_crc=self.check_crc)
            self.findings.extend(findings)
            self._partitions.append((each, partition))
            if survey.never_tiered:
                self.never_tiered += 1
            elif self.log_starts.add(partition) is False:
                yield partition_risk(survey, settings)

    def disagreements(self, replica: str) -> Iterator[ReplicaDisagreement]:
        """Yield the differences between each partition that was read and its replica in the log directory `replica`."""
        other = open_log_dir(replica)
        ours = {(each.topic, each.partition): (place, each) for place, each in self._partitions}
        for theirs in named(other, ours.keys()):
            place, mine = ours[theirs.topic, theirs.partition]
            yield compare_replicas(replica, (place.log_dir.filesystem, mine), (other.filesystem, theirs))
