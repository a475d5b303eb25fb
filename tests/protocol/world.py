"""Two hosts, a cluster and a store, in which commands run interleaved request by request, and what must always hold.

    world = World(seed, folder)
    world.run({"a tiers": lambda hand: commands.tier(world, hand, "a"), ...})

After each request:
- What brokers read of the partition (tests.reference.remote_index, complete objects) does not become less, but by
  what brokers delete or the store loses by itself.
- A segment becomes visible when all of it is there.
- No record of ours tells of a segment whose offsets brokers read already, nor of one that they have deleted.
- A command ends with an exit code other than 1, and with 5 only if something is damaged or lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.protocol.faults import Fault, Faults, FaultStore
from tests.protocol.logs import BASES, END, PARTITION, epoch_of, new_disk, template
from tests.protocol.logs import end_of as end_of_segment
from tests.protocol.memory_store import MemoryStore
from tests.protocol.model_brokers import ModelBrokers
from tests.reference.interleaved import Actor, Killed, Turns
from tests.reference.model_cluster import ModelCluster
from tiersnap.remote_storage.errors import BrokerUnavailableError
from tiersnap.remote_storage.locks.process import Process
from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.snapshot.errors import ExitCode

HOUR, DAY = 3_600_000, 86_400_000
TASK_MS = 1_000


class Broken(BaseException):
    """A promise is broken; no `except Exception` of a command hides it."""


@dataclass
class Hand:
    """What a command works with: its views of the store and of the cluster, and the process that it is."""

    actor: Actor
    store: FaultStore
    cluster: ModelCluster
    process: Process
    run_id: str


@dataclass
class Alone(Actor):
    """An actor beside whom there is no other."""

    choose: Callable[[list[str]], str] = field(kw_only=True)

    def turn(self) -> None:
        if not self.killed:
            self.choose([self.name])
        if self.killed:
            raise Killed


@dataclass
class World:
    """See the module.

    Attributes:
        disks: log directory by host; that of the leader is "a".
        is_damaged: whether the store damaged or lost something for good.
        is_lost: whether it lost something of a copy.
        events: what happened, for a person.
    """

    dice: Random
    folder: Path
    bases: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"a": BASES, "b": BASES})
    snapshots: set[int] = field(default_factory=lambda: {*BASES, 20})
    store: MemoryStore = field(default_factory=MemoryStore)
    cluster: ModelCluster = field(default_factory=ModelCluster)
    is_damaged: bool = False
    is_lost: bool = False
    events: list[str] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.disks = {name: new_disk(self.folder / name, bases, self.snapshots) for name, bases in self.bases.items()}
        self.brokers = ModelBrokers(self.cluster, self.store, self.disks["a"])
        self.cluster.leader_folder = template(BASES) / "orders-0"
        self.faults = Faults(self.dice, before_put=self.before_put)
        self.number = 0
        self.readable_before: set[int] = set()
        self._seen = (-1, -1)
        self._hands = threading.local()

    # Running commands.

    def run(self, commands: Mapping[str, Callable[[Hand], ExitCode]]) -> dict[str, ExitCode | None]:
        """Exit codes by name, None of what was killed."""
        if len(commands) == 1:
            ended = {name: self._alone(name, command) for name, command in commands.items()}
        else:
            turns = Turns(self._choose, view=lambda store, actor, calls: actor)
            for name, command in commands.items():
                turns.add(name, lambda actor, command=command, name=name: self._play(actor, name, command))
            ended = turns.run(self.store)
        self.check()
        codes = {name: self._code(name, result) for name, result in ended.items()}
        self.events += [f"{name}: {'killed' if code is None else int(code)}" for name, code in codes.items()]
        return codes

    def _alone(self, name: str, command: Callable[[Hand], ExitCode]) -> object:
        """The same without a thread: it is always its turn."""
        try:
            return self._play(Alone(name, lambda _: None, choose=self._choose), name, command)
        except BaseException as error:
            return error

    def _play(self, actor: Actor, name: str, command: Callable[[Hand], ExitCode]) -> ExitCode:
        self.number += 1
        process = Process(f"host-{self.number}", self.number, f"boot/1/{self.number}")
        cluster = self.cluster.view(lambda what, action: self._ask(actor, what, action))
        cluster.before_append = self.before_append
        hand = Hand(actor, FaultStore(self.store, actor, self.faults), cluster, process, f"run-{self.number}")
        self._hands.hand = hand
        actor.turn()
        return command(hand)

    def _code(self, name: str, result: object) -> ExitCode | None:
        if isinstance(result, Killed):
            return None
        if isinstance(result, Broken):
            raise result
        if isinstance(result, BaseException):
            raise AssertionError(f"{name}: {self.story()}") from result
        code = ExitCode(result)
        self._promise(code is not ExitCode.UNEXPECTED, f"{name} ended with 1")
        self._promise(code is not ExitCode.DATA_CORRUPT or self.is_damaged, f"{name} ended with 5")
        return code

    def _ask(self, actor: Actor, what: str, action: Callable[[], Any]) -> Any:
        """A request to the cluster."""
        actor.turn()
        fault = self.faults.of(what, "")
        if fault is Fault.CRASH_BEFORE:
            self._die(actor)
        if fault is Fault.LOST_REQUEST:
            raise BrokerUnavailableError(f"{what}: no answer")
        done = action()
        if fault is Fault.CRASH_AFTER:
            self._die(actor)
        if fault is Fault.LOST_ANSWER:
            raise BrokerUnavailableError(f"{what}: no answer")
        return done

    def _die(self, actor: Actor) -> None:
        actor.killed = True
        raise Killed

    def _choose(self, names: list[str]) -> str:
        self.check()
        self.advance(self.dice.choice((1, 10, 100)))
        self.meanwhile()
        return self.dice.choice(names)

    def hand(self) -> Hand:
        """Of the command that asks."""
        return self._hands.hand

    # Time.

    def advance(self, milliseconds: int) -> None:
        """Time passes; a copier has its task each second, at most thrice."""
        before, self.store.time = self.store.time, self.store.time + milliseconds
        for _ in range(min(3, self.store.time // TASK_MS - before // TASK_MS)):
            with self.event():
                self.brokers.run_copier()

    def sleep(self, seconds: float) -> None:
        """What time.sleep is in a command: others go on."""
        self.hand().actor.turn()
        self.advance(int(seconds * 1000))

    @contextmanager
    def event(self, said: str = "") -> Iterator[None]:
        """Something that is not ours to answer for."""
        self.check()
        yield
        self.readable_before = self.readable()
        if said:
            self.events.append(said)

    # What must hold.

    def check(self) -> None:
        """See that nothing readable became unreadable since the last time."""
        seen = (self.store.changes, sum(map(len, self.cluster.log.values())))
        if seen == self._seen:
            return
        self._seen = seen
        self._promise(not self.brokers.copied_again, f"the copier copied again {self.brokers.copied_again}")
        now = self.readable()
        hidden = self.readable_before - now
        self._promise(not hidden, f"offsets {sorted(hidden)} became unreadable")
        self.readable_before = now

    def readable(self, *, sound: bool = False) -> set[int]:
        """Offsets that brokers read in remote storage, if `sound` the undamaged ones; none of a topic that is gone."""
        if PARTITION.topic not in self.cluster.there:
            return set()
        index = self.brokers.index()
        complete = {each.id.segment_id for each in index.finished() if self.is_complete(each, sound=sound)}
        return {offset for offset in range(END) if index.find(epoch_of(offset), offset) in complete}

    def known(self) -> set[int]:
        """Offsets of which brokers look for a segment."""
        index = self.brokers.index()
        return {offset for offset in range(END) if index.find(epoch_of(offset), offset) is not None}

    def is_complete(self, segment: RemoteLogSegmentMetadata, *, sound: bool = False) -> bool:
        """Whether all its objects are there, the log is the log, and the manifest, or if `sound` each, is undamaged."""
        stem = f"{PARTITION.topic}-{PARTITION.topic_id}/0/{segment.start_offset:020d}-{segment.id.segment_id}"
        needed = [f"{stem}.{each}" for each in ("rsm-manifest", *(("indexes", "log") if sound else ()))]
        is_read = all((found := self.store.objects.get(key)) and found.is_right for key in needed)
        return is_read and self.end_of(stem) == segment.end_offset + 1

    def end_of(self, stem: str) -> int | None:
        """Where the segment ends whose log and indexes are there; None if they are not, or are not of the log."""
        log = self.store.objects.get(f"{stem}.log")
        if log is None or f"{stem}.indexes" not in self.store.objects:
            return None
        return end_of_segment(int(stem.rpartition("/")[2][:20]), log.data)

    def before_put(self, key: str) -> None:
        """An object is about to be put: what makes a segment visible comes when the rest is there."""
        stem = key.removesuffix(".rsm-manifest")
        is_right = stem == key or self.is_lost or self.end_of(stem) is not None
        self._promise(is_right, f"{stem} becomes visible, and is damaged or not complete")

    def before_append(self, record: MetadataRecord) -> None:
        """A record of ours is about to be written: see what it would make visible."""
        index, before = self.brokers.index(), {each.id.segment_id for each in self.brokers.index().finished()}
        index.apply(record)
        for segment in index.finished():
            if segment.id.segment_id in before:
                continue
            held = set(range(segment.start_offset, segment.end_offset + 1))
            self._promise(not held <= self.readable(sound=True), f"{segment.id} is there twice")
            self._promise(segment.id.segment_id not in index.deleted, f"{segment.id} comes back")

    def _promise(self, is_kept: bool, said: str) -> None:
        if not is_kept:
            raise Broken(f"{said}: {self.story()}")

    def story(self) -> str:
        """All that happened."""
        faults = [f"{fault} at {name} {key}" for fault, name, key in self.faults.happened]
        return "; ".join([*self.events, *faults])
