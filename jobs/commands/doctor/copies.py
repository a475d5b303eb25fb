"""The checks of `doctor` for obstacles to copying, such as failing copy tasks and paused topics, and for leftovers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.jobs.commands.doctor.cluster import closed_bytes
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.lost_epochs import LostEpochs
from tiersnap.remote_storage.cluster.standing_offsets import StandingOffset
from tiersnap.remote_storage.publish.left_paused import PausedTopic, PauseState
from tiersnap.remote_storage.retire.attempts_of_brokers import AttemptLeftovers
from tiersnap.snapshot.errors import RemoteStorageError, TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import OtherProblem
from tiersnap.snapshot.gate.step_template import NextStep
from tiersnap.snapshot.units import count_of, human_bytes

_PROBLEMS: Mapping[PauseState, OtherProblem] = {
    PauseState.DAMAGED: OtherProblem.DAMAGED_SAVED_CONFIGS,
    PauseState.NEWER_FORMAT: OtherProblem.NEWER_SAVED_CONFIGS,
}
"""The problem of a topic by its state, as `publish` has it; LEFT_PAUSED for other states."""
_RESTORABLE = (PauseState.LEFT, PauseState.NOT_ASKED)  # `unblock` may restore the saved configs

if TYPE_CHECKING:
    from tiersnap.remote_storage.cluster.stuck import StuckPartition
    from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
    from tiersnap.snapshot.gate.printed_steps import Step
    from tiersnap.snapshot.log.selection import NamedLogDir


@dataclass(frozen=True, slots=True)
class FailingCopyTask:
    """A copy task that fails again and again."""

    partition: str
    broker: int
    base_offset: Annotated[
        int, Meta(description="base offset of the segment whose upload fails; the remote log ends at this offset")
    ]
    attempts: Annotated[int, Meta(description="number of unfinished copy attempts for the segment")]
    ignores_published: Annotated[
        bool, Meta(description="whether the copy task uploads segments again that remote storage already has")
    ]
    waiting_bytes: Annotated[int, Meta(description="bytes of closed segments on this host from `base_offset` on")]

    def says(self) -> str:
        """Return the message about the task."""
        said = (
            f"{self.partition}: the copy task of broker {self.broker} fails again and again, at offset "
            f"{self.base_offset} after {count_of(self.attempts, 'attempt')}"
        )
        if self.ignores_published:
            said += "; the copy task uploads segments again that remote storage already has"
        if self.waiting_bytes:
            said += f"; {human_bytes(self.waiting_bytes)} wait"
        return said


@dataclass(frozen=True, slots=True)
class CopyFindings:
    """The obstacles to copying in a cluster, and the leftovers of failed attempts; empty without a cluster.

    Attributes:
        failing: copy tasks that fail again and again.
        paused: topics with disabled copying.
        lost_epochs: partitions that lack leader epochs; a broker of LOGDIR leads them.
        standing: partitions whose last stable offset has not moved; a broker of LOGDIR leads them.
        leftovers: leftovers in the remote location.
    """

    failing: list[FailingCopyTask] = field(default_factory=list)
    paused: list[PausedTopic] = field(default_factory=list)
    lost_epochs: list[LostEpochs] = field(default_factory=list)
    standing: list[StandingOffset] = field(default_factory=list)
    leftovers: list[AttemptLeftovers] = field(default_factory=list)

    @property
    def left_paused(self) -> list[PausedTopic]:
        """Return the topics that a killed run left paused."""
        return [each for each in self.paused if each.is_left]

    def blocking(self) -> Iterator[str]:
        """Yield a line for each obstacle to copying."""
        found: Iterable[FailingCopyTask | PausedTopic | LostEpochs | StandingOffset]
        found = chain(self.failing, self.left_paused, self.lost_epochs, self.standing)
        for each in found:
            yield each.says()

    def others(self) -> Iterator[str]:
        """Yield a line for each finding that is no obstacle to copying."""
        for paused in self.paused:
            if not paused.is_left:
                yield paused.says()
        for leftover in self.leftovers:
            yield leftover.says()

    def problems(self) -> Iterator[OtherProblem]:
        """Yield the problems from which the exit code follows. Leftovers are no problem."""
        if self.failing or self.lost_epochs:
            yield OtherProblem.STUCK_COPY
        for each in self.left_paused:
            yield _PROBLEMS.get(each.state, OtherProblem.LEFT_PAUSED)
        if self.standing:
            yield OtherProblem.STANDING_LSO

    def steps(self, freeing: Iterable[NextStep]) -> Iterator[NextStep]:
        """Yield the next steps; `freeing` are the steps that free a copy task."""
        from tiersnap.snapshot.gate.next_steps import REMOVE_ORPHANS, steps_of

        if self.failing:
            yield from freeing
        yield from self._steps_of_pauses()
        yield from dict.fromkeys(chain.from_iterable(each.cure() for each in self.lost_epochs))
        if self.standing:
            yield from steps_of(OtherProblem.STANDING_LSO)
        if self.leftovers and not self.failing:
            yield REMOVE_ORPHANS

    def _steps_of_pauses(self) -> Iterator[NextStep]:
        from tiersnap.snapshot.gate.next_steps import steps_of

        can_restore = any(each.state in _RESTORABLE for each in self.left_paused)
        if can_restore and not self.failing:  # the steps that free a copy task restore saved configs as well
            yield from steps_of(OtherProblem.LEFT_PAUSED)
        yield from map(NextStep, filter(None, dict.fromkeys(each.hint for each in self.paused)))


def steps_once(steps: Iterable[Step]) -> list[Step]:
    """Return the steps. Merge steps with the same command into one step, with the first note that is not empty."""
    found: dict[object, Step] = {}
    for number, each in enumerate(steps):
        key = each.command or number
        first = found.setdefault(key, each)
        found[key] = replace(first, note=first.note or each.note)
    return list(found.values())


def check_copies(
    cluster: Cluster | None,
    log_dirs: Sequence[str],
    view: RemoteView,
    records: MetadataCache | None,
    now: int,
    talk: Callable[[str], None],
) -> tuple[CopyFindings, list[TiersnapError]]:
    """Return the obstacles to copying in a cluster, the leftovers of failed attempts, and the error of the store.

    The list of errors is empty if the remote location can be read. Otherwise the leftovers and the state of paused
    topics are unknown.

    If the records suggest that copy tasks fail, the function watches these tasks for up to three task intervals.

    Args:
        cluster: the cluster to ask; without one the result is empty.
        log_dirs: log directories of one broker; may be empty.
        view: the remote location with leftovers and saved configs.
        records: all records of the cluster; None to read them.
        now: current time in epoch ms.
        talk: prints progress.

    Raises:
        BrokerUnavailableError: the cluster does not answer.
        ClusterRefusedError: the cluster refuses a request.
    """
    if cluster is None:
        return CopyFindings(), []
    from tiersnap.remote_storage.cluster.copied_topics import ask_topics
    from tiersnap.remote_storage.cluster.failing_copies import find_failing
    from tiersnap.remote_storage.cluster.hung_copies import read_all_records
    from tiersnap.remote_storage.cluster.lost_epochs import find_lost_epochs
    from tiersnap.remote_storage.cluster.standing_offsets import find_standing
    from tiersnap.remote_storage.publish.left_paused import find_left_paused
    from tiersnap.remote_storage.retire.attempts_of_brokers import find_leftovers
    from tiersnap.snapshot.log.selection import open_log_dirs

    opened = open_log_dirs(log_dirs)
    known = read_all_records(cluster) if records is None else records
    topics = ask_topics(cluster, opened, known)
    failing = find_failing(cluster, known, topics.leaders, log_dirs, now, talk)
    here = topics.led_here(opened)
    errors: list[TiersnapError] = []
    paused = find_left_paused(cluster, None, topics.topic_ids, topics.marked)
    leftovers: list[AttemptLeftovers] = []
    if view.remote is not None:
        try:
            store = view.open_store()
            leftovers = list(find_leftovers(store, known))
            paused = find_left_paused(cluster, store, topics.topic_ids, topics.marked)
        except (RemoteStorageError, TransientError) as error:
            errors.append(error)
    found = CopyFindings(
        failing=list(_rows(failing, opened)),
        paused=paused,
        lost_epochs=find_lost_epochs(known, (partition for _, partition in here.values()), topics.leaders),
        standing=find_standing(cluster, here, now),
        leftovers=leftovers,
    )
    return found, errors


def _rows(failing: Iterable[StuckPartition], opened: Sequence[NamedLogDir]) -> Iterator[FailingCopyTask]:
    from tiersnap.snapshot.log.selection import named

    found = {(each.partition.topic, each.partition.partition): each for each in failing}
    waiting: dict[tuple[str, int], int] = {}
    for log_dir in opened:
        for partition in named(log_dir.log_dir, found):
            key = partition.topic, partition.partition
            waiting[key] = closed_bytes(partition, found[key].next_offset)
    for key, each in found.items():
        row = (each.leader, each.next_offset, each.attempts, each.ignores_published, waiting.get(key, 0))
        yield FailingCopyTask(str(each.partition), *row)
