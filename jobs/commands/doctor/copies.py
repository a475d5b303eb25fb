"""The answers of `doctor` about copying: tasks that fail, pauses, lost epochs, standing offsets, and leftovers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from tiersnap.snapshot.gate.exit_code import OtherProblem
from tiersnap.snapshot.gate.next_step import NextStep
from tiersnap.snapshot.units import count_of, human_bytes

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
    base_offset: Annotated[int, Meta(description="where it fails: remote storage ends there")]
    attempts: Annotated[int, Meta(description="that did not end")]
    has_not_looked: Annotated[bool, Meta(description="it does not see what is in remote storage already")]
    waiting_bytes: Annotated[int, Meta(description="of closed segments on this host")]

    def says(self) -> str:
        """Return it in words."""
        where = "at segments that remote storage holds: it has not looked" if self.has_not_looked else "again and again"
        ended = count_of(self.attempts, "attempt")
        wait = f"; {human_bytes(self.waiting_bytes)} wait" if self.waiting_bytes else ""
        return (
            f"{self.partition}: the copy task of broker {self.broker} fails {where}, at offset {self.base_offset} "
            f"after {ended}{wait}"
        )


@dataclass(frozen=True, slots=True)
class CopyFindings:
    """The obstacles to copying in a cluster, and the leftovers of failed attempts; empty without a cluster.

    `lost_epochs` and `standing` are of the partitions that a broker of LOGDIR leads, `leftovers` of --remote.
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
        """Yield a line for each thing that keeps brokers from copying."""
        found: Iterable[FailingCopyTask | PausedTopic | LostEpochs | StandingOffset]
        found = chain(self.failing, self.left_paused, self.lost_epochs, self.standing)
        for each in found:
            yield each.says()

    def others(self) -> Iterator[str]:
        """Yield a line for each thing that blocks nothing."""
        yield from (each.says() for each in self.paused if not each.is_left)
        yield from (each.says() for each in self.leftovers)

    def problems(self) -> Iterator[OtherProblem]:
        """Yield the problems; leftovers are none."""
        if self.failing or self.lost_epochs:
            yield OtherProblem.STUCK_COPY
        if self.left_paused:
            yield OtherProblem.LEFT_PAUSED
        if self.standing:
            yield OtherProblem.STANDING_LSO

    def steps(self, freeing: Iterable[NextStep]) -> Iterator[NextStep]:
        """Yield the next steps; `freeing` are those that free a copy task."""
        from tiersnap.snapshot.gate.steps_by_problem import REMOVE_ORPHANS, steps_of

        if self.failing:
            yield from freeing
        yield from self._steps_of_pauses()
        yield from dict.fromkeys(chain.from_iterable(each.cure() for each in self.lost_epochs))
        if self.standing:
            yield from steps_of(OtherProblem.STANDING_LSO)
        if self.leftovers and not self.failing:
            yield REMOVE_ORPHANS

    def _steps_of_pauses(self) -> Iterator[NextStep]:
        from tiersnap.snapshot.gate.steps_by_problem import steps_of

        has_saved_configs = any(each.state is not PauseState.NOTHING_SAVED for each in self.left_paused)
        if has_saved_configs and not self.failing:  # the steps that free a copy task put them back, too
            yield from steps_of(OtherProblem.LEFT_PAUSED)
        yield from map(NextStep, filter(None, dict.fromkeys(each.hint for each in self.paused)))


def steps_once(steps: Iterable[Step]) -> list[Step]:
    """Return the steps without repeated commands; of these the first one, with the first note."""
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
) -> CopyFindings:
    """Return the reasons that keep the brokers of a cluster from copying.

    If copy tasks may fail, it watches them for up to three task intervals.

    Args:
        log_dirs: log directories of one broker; may be empty.
        view: the remote location in which failed attempts and saved configs are searched for.
        records: all records of the cluster, if they were read before.
        now: ms.
        talk: reports progress.

    Raises:
        BrokerUnavailableError, ClusterRefusedError: the cluster does not answer.
    """
    if cluster is None:
        return CopyFindings()
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
    store = None if view.remote is None else view.open_store()
    return CopyFindings(
        failing=list(_rows(failing, opened)),
        paused=find_left_paused(cluster, store, topics.marked),
        lost_epochs=find_lost_epochs(known, (partition for _, partition in here.values()), topics.leaders),
        standing=find_standing(cluster, here, now),
        leftovers=[] if store is None else list(find_leftovers(store, known)),
    )


def _rows(failing: Iterable[StuckPartition], opened: Sequence[NamedLogDir]) -> Iterator[FailingCopyTask]:
    from tiersnap.snapshot.log.selection import named

    found = {(each.partition.topic, each.partition.partition): each for each in failing}
    waiting: dict[tuple[str, int], int] = {}
    for log_dir in opened:
        for partition in named(log_dir.log_dir, found):
            key = partition.topic, partition.partition
            waiting[key] = closed_bytes(partition, found[key].next_offset)
    for key, each in found.items():
        row = (each.leader, each.next_offset, each.attempts, each.has_not_looked, waiting.get(key, 0))
        yield FailingCopyTask(str(each.partition), *row)
