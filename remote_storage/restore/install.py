"""Install stored snapshots on a broker host: plan each partition, and write its snapshots."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from re import Pattern

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import NO_TOPIC_ID, KeyKind
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition, name_of
from tiersnap.remote_storage.restore.install_outcome import InstallOutcome, PlannedInstall
from tiersnap.remote_storage.restore.install_plan import InstallPlanner, PartitionSnapshots, without_folding
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError, TiersnapError, UsageError
from tiersnap.snapshot.gate.exit_code import OtherProblem, Problem
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition
from tiersnap.snapshot.log.selection import NamedLogDir, findings_of, selected
from tiersnap.snapshot.repair.files import in_place, nowhere
from tiersnap.snapshot.repair.repair_plan import PlanOptions
from tiersnap.snapshot.repair.undone import undone_at_start
from tiersnap.snapshot.replay.examine import examine
from tiersnap.snapshot.replay.partition_replay import snapshot_reader

_log = logging.getLogger(__name__)


@dataclass
class Installation:
    """Plans and writes the snapshots of each partition, and collects outcomes, findings and errors."""

    store: ObjectStore
    log_dir: LogDir
    logdir: str  # the log directory as the user named it
    topic: Pattern[str] | None  # regular expression for whole topic names; None for all topics
    options: PlanOptions
    compares: bool = True  # whether the log is folded, and each snapshot is compared with the result
    check_crc: bool = True
    # Yields the partitions unchanged, and reports progress.
    watch: Callable[[Iterable[Partition]], Iterable[Partition]] = iter
    outcomes: Counter[InstallOutcome] = field(default_factory=Counter)  # number of offsets by outcome
    findings: list[Finding] = field(default_factory=list)  # damaged and unreadable files
    undone: list[str] = field(default_factory=list)  # sentences about snapshots that the broker deletes at its start
    # Sentences about partitions whose snapshots are stored under another topic id.
    other_ids: list[str] = field(default_factory=list)
    errors: list[TiersnapError] = field(default_factory=list)  # an error ends only its partition
    waiting: set[Problem] = field(default_factory=set)  # reasons why segments still lack snapshots
    _topics: dict[str, set[TopicIdPartition]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.findings += findings_of((NamedLogDir(self.logdir, self.log_dir),))

    @property
    def path(self) -> Path:
        """Return the local path of the log directory. Raises UsageError: the log directory is on no local disk."""
        if not self.log_dir.filesystem.is_local:
            raise UsageError(
                f"{self.logdir}: --apply needs a directory on this host", hint="run the command on the broker's host"
            )
        return Path(self.log_dir.path)

    def plans(self, *, write: bool) -> Iterator[tuple[Partition, list[PlannedInstall]]]:
        """Yield each partition with stored snapshots, and its plan. The error of a partition is added to `errors`.

        Args:
            write: whether to carry the plan out.

        Raises:
            ObjectNotFoundError: at the end, if no run stored a snapshot of any partition.
            TransientError: the store does not answer.
            RemoteStorageError: the store refuses a request, or the disk is full.
        """
        has_any = False
        for partition in self.watch(selected(self.log_dir, self.logdir, self.topic)):
            if not partition.segments:
                # An unreadable folder may lack snapshots, too.
                self.findings += partition.findings
                has_any |= not all(each.is_gone for each in partition.findings)
                continue
            planned = self._planned_or_error(partition, write=write)
            if planned is not None:
                has_any = True
                self._count(planned)
                yield partition, planned
        if not (has_any or self.other_ids or self.errors):
            raise ObjectNotFoundError(
                "no run stored a snapshot of these partitions in the location",
                hint="give the --remote of tiersnap run. A run stores the snapshots that brokers lack; with --all, "
                "a run stores a snapshot for every segment end",
            )

    def _count(self, planned: Iterable[PlannedInstall]) -> None:
        for each in planned:
            self.outcomes[each.action] += 1
            if each.problem is not None:
                self.waiting.add(each.problem)

    def _planned_or_error(self, partition: Partition, *, write: bool) -> list[PlannedInstall] | None:
        try:
            return self._planned(partition, write=write)
        except (CorruptDataError, ObjectExistsError, UsageError) as error:
            self.errors.append(error)
            return None

    def _planned(self, partition: Partition, *, write: bool) -> list[PlannedInstall] | None:
        """Return the plan of a partition. If `write` is True, carry it out.

        Return None if no run stored a snapshot of the partition.
        """
        at = name_of(partition)
        stored = PartitionSnapshots(self.store, at)
        if not stored.offsets:
            _log.debug("no run stored a snapshot of the partition %s", at)
            self._look_for_other_ids(at)
            return None
        self.undone.extend(undone_at_start(self.log_dir.filesystem, partition))
        with (in_place if write else nowhere)(partition) as writer:
            read_here = snapshot_reader(self.log_dir.filesystem, partition)
            planner = InstallPlanner(partition, stored, self.options, read_here, writer, compares=self.compares)
            planner.finish(self._fold(partition, stored, planner))
        return planner.planned

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that determine the exit code."""
        yield from self.findings
        yield from self.errors
        yield from self.waiting
        if self.undone:
            yield OtherProblem.LOST_INDEX
        if self.other_ids:
            yield OtherProblem.OTHER_TOPIC_ID

    def _fold(self, partition: Partition, stored: PartitionSnapshots, planner: InstallPlanner) -> str:
        """Pass the Boundary at each snapshot offset to the planner.

        Return the reason why the planner got no boundary at some offsets.
        """
        if not self.compares:
            self.findings += partition.findings
            read_here = snapshot_reader(self.log_dir.filesystem, partition)
            for boundary in without_folding(partition, stored, read_here):
                planner(boundary)
            return "the offset is at or below the log start offset"
        examination = examine(self.log_dir.filesystem, partition, check_crc=self.check_crc, on_boundary=planner)
        self.findings.extend(examination.findings)
        return f"the log cannot be replayed up to this offset: {examination.stopped_by}"

    def _look_for_other_ids(self, at: TopicIdPartition) -> None:
        """Add a sentence to `other_ids` for each other topic id under which snapshots of the partition are stored."""
        for other in sorted(self._partitions_stored(at.topic), key=lambda each: each.topic_id or ""):
            if (other.topic, other.partition) == (at.topic, at.partition) and other != at:
                self.other_ids.append(
                    f"{at}: the topic id is {_id_of(at)}, but the stored snapshots belong to {_id_of(other)}, so "
                    "install skips these snapshots; to compute snapshots from the local log: tiersnap repair"
                )

    def _partitions_stored(self, topic: str) -> set[TopicIdPartition]:
        """Return the partitions of a topic with a stored snapshot, under any topic id."""
        if topic not in self._topics:
            self._topics[topic] = set(self._list_partitions(topic))
        return self._topics[topic]

    def _list_partitions(self, topic: str) -> Iterator[TopicIdPartition]:
        for found in self.store.list(keys.topic_snapshots(topic)):
            key = keys.recognise(found.key)
            # The folder may contain only a cluster.json from `tier`.
            if key is not None and key.kind is KeyKind.SNAPSHOT:
                yield key.partition


def _id_of(partition: TopicIdPartition) -> str:
    return partition.topic_id or NO_TOPIC_ID
