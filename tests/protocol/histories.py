"""Random pasts of a partition in remote storage, and commands that meet them; seeded.

Brokers and tiersnap copied closed segments, some of them twice, and some attempts ended without a record. Then the
store damaged, lost or mixed up objects, local retention deleted segments, and a clone of the log was written on by
itself. A backup was made before that, and some of its objects are damaged, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

from tests.protocol import damages
from tests.protocol.commands import CLUSTER, REMOTE, now_of, type_command
from tests.protocol.logs import BASES, PARTITION, ROLLED_LATER, Clone, new_disk, template
from tests.protocol.memory_store import MemoryStore
from tests.protocol.readable_world import ReadableWorld, base_of, log
from tests.protocol.world import DAY
from tests.reference.kept_proof import keep_proof
from tests.reference.log_builder import offsets_text
from tests.reference.model_cluster import ENDLESS, STORAGE_MANAGER
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.snapshot.errors import ExitCode

STATES = [*SegmentState]
STARTED, FINISHED, DELETING, _ = STATES
CLONES = (Clone(5, producer=6), Clone(10, producer=6), Clone(0, payload=b"w"), Clone(5, payload=b"w"))
MANAGERS = {
    "aiven": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
    "local-tiered-storage": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
}
Word = str | Path


@dataclass
class History:
    """One of them; `play` raises what a command breaks.

    Attributes:
        done: (command, exit code, what it changed); "put back" if a log came from the backup.
        spoiled: ids of segments that the store damaged.
        retained: where segments began that only remote storage has.
        backup: a directory with a copy of the objects, each under the name of its segment.
    """

    seed: int
    folder: Path
    done: list[tuple[str, ExitCode | None, frozenset[str]]] = field(default_factory=list)
    spoiled: set[str] = field(default_factory=set)
    retained: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.dice = dice = Random(f"history {self.seed}")
        self.is_stuck = dice.random() < 0.2
        self.layout = "aiven" if self.is_stuck else dice.choice(("aiven", "aiven", "local-tiered-storage"))
        self.clone = dice.choice(CLONES)
        snapshots = {*dice.sample(BASES[1:], dice.randint(0, 2))} if self.is_stuck else {*BASES}
        bases, is_local = {"a": BASES, "b": dice.choice((BASES, ROLLED_LATER))}, self.layout != "aiven"
        self.backup = self.folder / "backup"
        self.world = world = ReadableWorld(dice, self.folder, bases, snapshots, local_layout=is_local)
        world.disks["clone"] = new_disk(self.folder / "clone", BASES, {*BASES}, self.clone)
        world.cluster.of_brokers[STORAGE_MANAGER] = MANAGERS[self.layout]
        world.cluster.create(PARTITION, end=20, settings={"retention.ms": "-1"} if self.is_stuck else ENDLESS)
        keep_proof(world.cluster, world.store)

    def play(self) -> None:
        """Let the past happen, then some commands."""
        self._make_segments()
        self._pause()
        self._back_up()
        with self.world.event():
            self._retain()
            self._spoil()
            self._lose_what_only_the_backup_has()
        for _ in range(self.dice.randint(2, 4)):
            self._run(*self._words())
            self._pause()

    def _run(self, *words: Word) -> None:
        self.world.changed.clear()
        self.world.events.append(" ".join(map(str, words)))
        before = {*self.world.store.objects}
        (code,) = self.world.run({words[0]: lambda _: type_command(*words)}).values()
        if any(self._is_from_backup(key, words) for key in self.world.store.objects.keys() - before):
            self.world.changed.add("put back")
        self.done.append((str(words[0]), code, frozenset(self.world.changed)))

    def _is_from_backup(self, key: str, words: Sequence[Word]) -> bool:
        """Whether the backup alone has a log that a command put; its log directory does not."""
        if "--from" not in words or not key.endswith(".log") or not (self.backup / key).exists():
            return False
        disk = Path(words[1])
        return not (disk / "orders-0" / f"{base_of(key):020d}.log").exists()

    def _pause(self) -> None:
        self.world.advance(self.dice.choice((10_000, 2 * DAY)))

    # The commands.

    def _words(self) -> Sequence[Word]:
        commands: list[Callable[[], Sequence[Word]]] = [self._tier, self._mend, self._mend, self._orphans]
        commands += [self._unblock] * 2 if self.is_stuck else [self._publish] * 2
        return self.dice.choice(commands)()

    @property
    def _where(self) -> Sequence[Word]:
        return (*REMOTE, "--layout", self.layout)

    def _disk(self) -> Path:
        """A host's, or the clone's if remote storage tells that it is one.

        The newest segment that brokers know tells it, if nothing befell it. If remote storage has bytes of both logs,
        the leader's disk alone tells which one is right: one that rolled elsewhere has no segment to compare.
        """
        if self.world.bases_of_other_logs():
            return self.world.disks["a"]
        known = self.world.seen().known
        clones = ("clone",) if known.get(max(known, default=0)) not in self.spoiled else ()
        return self.world.disks[self.dice.choice(("a", "a", "b", *clones))]

    def _tier(self) -> Sequence[Word]:
        asks = CLUSTER if self.dice.random() < 0.5 else ()
        return ("tier", self._disk(), *self._where, *asks, *now_of(self.world), "--apply")

    def _publish(self) -> Sequence[Word]:
        return ("publish", *CLUSTER, *self._where, "--unproven", self.world.disks["a"], "--apply")

    def _unblock(self) -> Sequence[Word]:
        source = (self.world.disks["a"], *now_of(self.world))
        return ("unblock", *CLUSTER, *self._where, "--unproven", *source, "--apply")

    def _mend(self) -> Sequence[Word]:
        dice = self.dice
        words: list[Word] = ["mend", self._disk(), *CLUSTER, *self._where, "--unproven", "--allow-plaintext"]
        words += now_of(self.world)
        words += ["--from", self.backup] if dice.random() < 0.5 else []
        words += ["--depth", dice.choice(("snapshots", "full", "full"))]
        words += ["--delete-bad"] if dice.random() < 0.6 else []
        return (*words, "--apply")

    def _orphans(self) -> Sequence[Word]:
        return ("maintain", "remove-orphans", *CLUSTER, *REMOTE, "--apply")

    # The past.

    def _make_segments(self) -> None:
        dice = self.dice
        with self.world.event():
            for base in BASES[: dice.choice((0, 1, 1, 2, 3))]:
                self._copy(BASES, base, FINISHED)
        self._pause()
        if dice.random() < 0.6:
            self._run("tier", self.world.disks["a"], *self._where, *now_of(self.world), "--apply")
            if dice.random() < 0.4 and not self.is_stuck:
                self._run(*self._publish())
        with self.world.event():
            for _ in range(dice.choice((0, 0, 1, 1, 2))):
                bases = dice.choice((BASES, BASES, ROLLED_LATER))
                self._copy(bases, dice.choice(bases[:-1]), dice.choice((*[FINISHED] * 3, STARTED, DELETING)))
        self.done.clear()

    def _copy(self, bases: tuple[int, ...], base: int, state: SegmentState) -> None:
        """A broker copies a segment, and its records tell of it up to a state; a clone's only as the leader rolled."""
        clone = self.clone if bases == BASES and self.dice.random() < 0.1 else None
        source, store, cluster = template(bases, clone) / "orders-0", self.world.store, self.world.cluster
        (made,) = tier(source, store, layout=open_layout(self.layout), bases={base}, event_timestamp=store.time)
        cluster.append(SegmentRecord(replace(made, broker_id=1, state=STARTED)))
        for each in STATES[1 : STATES.index(state) + 1]:
            cluster.append(SegmentUpdate(made.id, 1, store.time, each))
        self.world.events.append(f"{state.name} {made.id.segment_id} at {base}{' of the clone' if clone else ''}")

    def _back_up(self) -> None:
        """Copy the objects of segments to a directory, and damage, mix up or lose some of them there."""
        dice, copied = self.dice, MemoryStore()
        segments = {key: data for key, data in self.world.store.objects.items() if not key.startswith("claims/")}
        copied.objects = dict(segments)
        for key in dice.sample(sorted(segments), min(len(segments), dice.choice((0, 0, 1, 2, 4)))):
            damage = dice.choice([*damages.DAMAGES, partial(damages.mix_up, dice=dice)])
            if key in copied.objects:
                damage(copied, key)
        for key, stored in copied.objects.items():
            path = self.backup / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(stored.data)
        self.backup.mkdir(exist_ok=True)

    def _spoil(self) -> None:
        store, dice = self.world.store, self.dice
        logs = sorted(key for key in store.objects if key.endswith(".log"))
        for key in dice.sample(logs, min(len(logs), dice.choice((0, 1, 1, 2, 3)))):
            stem = key.removesuffix("log")
            others = sorted(each for each in store.objects if each.startswith(stem) and each != key)
            foreign = [partial(damages.mix_up, dice=dice)]
            if base_of(key) not in self.retained:  # else no log is left that tells which one is right
                swap = partial(damages.swap, layout=open_layout(self.layout), clone=self.clone)
                foreign.append(partial(swap, whole=dice.random() < 0.7))
            damage = dice.choice([*damages.DAMAGES, *foreign, *foreign])
            self.spoiled.add(key.removesuffix(".log")[-22:])
            target = dice.choice((key, key, key, *others))
            damage(store, target)
            self.world.events.append(f"{getattr(damage, 'func', damage).__name__} {target}")

    def _lose_what_only_the_backup_has(self) -> None:
        """The store loses a segment, or its log, whose local files retention deleted."""
        dice, objects = self.dice, self.world.store.objects
        if not self.retained or dice.random() < 0.6:
            return
        base = dice.choice(sorted(self.retained))
        found = sorted(key for key in objects if not key.startswith("claims/") and f"/{base:020d}-" in key)
        for key in found if dice.random() < 0.5 else [each for each in found if each.endswith(".log")]:
            damages.lose(self.world.store, key)
            self.spoiled.add(key.rpartition(".")[0][-22:])
            self.world.events.append(f"lose {key}")

    def _retain(self) -> None:
        """Local retention deletes the oldest segments of the leader that remote storage has."""
        remote, others = self.world.seen().remote, self.world.bases_of_other_logs()
        disk = self.world.disks["a"]
        for base, end in list(pairwise(BASES))[: self.dice.choice((0, 0, 1, 2, 3))]:
            if base in others or any(remote.get(offset) != log()[offset] for offset in range(base, end)):
                break
            self.retained.add(base)
            for path in (disk / "orders-0").glob(f"{base:020d}.*"):
                path.unlink()
            self.world.events.append(f"local retention of {base}")
        (disk / "log-start-offset-checkpoint").write_text(offsets_text({("orders", 0): 0}))


class Doubled(History):
    """tiersnap uploads segments and publishes none, a broker copies some of them, too, and orphans are removed."""

    def play(self) -> None:
        """Let it happen; the store damages objects before the removal."""
        self._run("tier", self.world.disks["a"], *self._where, *now_of(self.world), "--apply")
        with self.world.event():
            for base in self.dice.sample(BASES[:-1], self.dice.randint(1, len(BASES) - 1)):
                self._copy(BASES, base, FINISHED)
        self.world.advance(2 * DAY)
        with self.world.event():
            self._retain()
            self._spoil()
            self._spoil_what_brokers_read()
        self._run(*self._orphans())

    def _spoil_what_brokers_read(self) -> None:
        """The store damages logs of segments whose local files retention deleted."""
        known, store = self.world.seen().known, self.world.store
        for base in sorted(self.retained & known.keys()):
            logs = [key for key in store.objects if key.endswith(f"{known[base]}.log")]  # none if it is lost already
            if logs and self.dice.random() < 0.5:
                self.dice.choice(damages.DAMAGES)(store, logs[0])
