"""What remote storage and its cluster may be found in; docs/exit-codes.md has a row for each.

The log is that of tests.protocol.logs. Brokers have read a record back from the location. A broker has uploaded the
first closed segment, and its copier is stuck at the second, which lacks its snapshot. In all situations but two copying
is off since, and `tier` has made the rest.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests.chaos.small_disk import SmallDisk
from tests.protocol import commands
from tests.protocol.faults import Fault
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, PARTITION, new_disk
from tests.protocol.memory_store import MemoryStore
from tests.protocol.world import DAY, World
from tests.reference.broker_lock import broker
from tests.reference.kept_proof import keep_proof
from tests.reference.model_cluster import CLUSTER_ID, ENDLESS, STORAGE_MANAGER
from tests.reference.situations import CannotBeLaidOutError
from tiersnap.jobs.main import run
from tiersnap.remote_storage.errors import BrokerUnavailableError, ClusterRefusedError
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentId, SegmentState, new_segment_id
from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
from tiersnap.snapshot.errors import ExitCode, RemoteStorageError

Word = str | Path | int
SITUATIONS: dict[str, Callable[[Place], object]] = {}


def situation(name: str) -> Callable[[Callable[[Place], object]], Callable[[Place], object]]:
    """Register what changes a place that is published; the first line of its docstring says what it is."""

    def register(change: Callable[[Place], object]) -> Callable[[Place], object]:
        SITUATIONS[name] = change
        return change

    return register


@dataclass
class Place:
    """Remote storage, its cluster, and disks of hosts.

    Attributes:
        remote: how --remote names it.
        target: the log directory of a new host, on which nothing is.
        replica: a log directory that lacks a snapshot which is stored.
        elsewhere: a directory with the same objects, as `mend` reads it.
    """

    world: World
    target: Path
    replica: Path
    remote: str = "s3://bucket"
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def disk(self) -> Path:
        return self.world.disks["a"]

    @property
    def nowhere(self) -> Path:
        """Where no directory is."""
        return self.world.folder / "nowhere"

    @property
    def elsewhere(self) -> Path:
        return self.world.folder / "elsewhere"

    def type(self, *words: Word) -> ExitCode:
        """Run a command."""
        codes = self.world.run({words[0]: lambda _: ExitCode(run(["-q", "--log-level", "error", *map(str, words)]))})
        (code,) = codes.values()
        assert code is not None
        return code

    def run(self, *words: Word) -> ExitCode:
        """Run a command; what it changed is put back."""
        world = self.world
        store, there, log = copy.copy(world.store), copy.deepcopy(world.cluster.there), copy.deepcopy(world.cluster.log)
        objects, uploads, time = dict(store.objects), dict(store.uploads), store.time
        copied = world.brokers.copied
        code = self.type(*words)
        world.brokers.copied = copied
        world.store.objects, world.store.uploads, world.store.time = objects, uploads, time
        world.cluster.there, world.cluster.log = there, log
        shutil.rmtree(self.nowhere, ignore_errors=True)
        return code

    def keys(self, kind: KeyKind) -> list[str]:
        """Objects of a kind, in order."""
        parsed = {key: keys.recognise(key) for key in sorted(self.world.store.objects)}
        return [key for key, found in parsed.items() if found is not None and found.kind is kind]


@contextmanager
def found(name: str, folder: Path) -> Iterator[Place]:
    """Lay it out below a folder.

    Raises:
        CannotBeLaidOutError: this process may not do what it needs.
    """
    world = World(Random(name), folder, snapshots={5})
    world.is_damaged = world.is_lost = True  # or a command may not say so
    world.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    world.cluster.create(PARTITION, end=20, settings={"retention.ms": "-1"})
    place = Place(world, folder / "new", new_disk(folder / "replica", BASES, {5, 15}))
    place.target.mkdir()
    (place.target / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=1\ndirectory.id=y\n")
    with installed(world, 1), place.stack:
        world.advance(10_000)
        keep_proof(world.cluster, world.store)
        if name not in NOT_PUBLISHED:
            settled(place)
            assert world.run({"c": lambda hand: commands.publish(world, hand)}) == {"c": ExitCode.OK}, world.story()
        world.advance(2 * DAY)
        for key, stored in world.store.objects.items():
            (place.elsewhere / key).parent.mkdir(parents=True, exist_ok=True)
            (place.elsewhere / key).write_bytes(stored.data)
        # Some of them make brokers read less, and that is not the commands' fault.
        world.check = lambda: None  # type: ignore[method-assign]
        SITUATIONS[name](place)
        yield place


def settled(place: Place) -> None:
    """Copying is switched off, and what is ready is tiered."""
    world = place.world
    world.cluster.change_settings(PARTITION.topic, ENDLESS)
    world.brokers.copied = None
    assert world.run({"a": lambda hand: commands.tier(world, hand, "a")}) == {"a": ExitCode.OK}, world.story()


@situation("published")
def published(_: Place) -> None:
    """All remote segments are published. Copying is disabled"""


@situation("not published")
def not_published(place: Place) -> None:
    """`tier` has uploaded segments that are not published yet. Copying is disabled"""
    settled(place)


@situation("stuck")
def stuck(place: Place) -> None:
    """The copy task retries one segment again and again, because the segment has no snapshot"""
    place.world.brokers.run_copier()


NOT_PUBLISHED = ("not published", "stuck")


@situation("copying on")
def copying_on(place: Place) -> None:
    """As *published*, but copying is enabled again"""
    place.world.cluster.change_settings(PARTITION.topic, {COPY_DISABLE: None})


@situation("hung copy")
def hung_copy(place: Place) -> None:
    """As *published*, but a broker began to copy the next segment an hour ago and has not finished"""
    copying_on(place)
    world = place.world
    begun = replace(
        min(world.brokers.index().segments(), key=lambda each: each.start_offset),
        id=RemoteLogSegmentId(PARTITION.topic, PARTITION.topic_id or "", PARTITION.partition, new_segment_id()),
        start_offset=15,
        end_offset=19,
        segment_leader_epochs=((3, 15),),
        event_timestamp=world.store.time - 3_600_000,
        state=SegmentState.COPY_SEGMENT_STARTED,
    )
    world.cluster.append(SegmentRecord(begun))


@situation("empty")
def empty(place: Place) -> None:
    """Remote storage is empty: a new bucket, or a wrong prefix"""
    place.world.store.objects.clear()


@situation("wrong place")
def wrong_place(place: Place) -> None:
    """Brokers read another location. The location of `--remote` has only segments of `tier`"""
    broker = min(place.keys(KeyKind.LOG)).removesuffix(".log")
    objects = [key for key in place.world.store.objects if key.startswith(broker)]
    place.world.store.delete([*objects, keys.read_back(CLUSTER_ID)])


@situation("no such place")
def no_such_place(place: Place) -> None:
    """The directory of --remote does not exist"""
    place.remote = str(place.nowhere)


@situation("lost log")
def lost_log(place: Place) -> None:
    """The log object of a published segment is lost"""
    del place.world.store.objects[place.keys(KeyKind.LOG)[1]]


@situation("damaged log")
def damaged_log(place: Place) -> None:
    """A byte of a segment's log object is wrong"""
    place.world.store.flip(place.keys(KeyKind.LOG)[1])


@situation("damaged manifest")
def damaged_manifest(place: Place) -> None:
    """A byte of a segment's manifest is wrong"""
    place.world.store.flip(place.keys(KeyKind.RSM_MANIFEST)[1])


@situation("damaged snapshot")
def damaged_snapshot(place: Place) -> None:
    """A byte of a computed snapshot is wrong"""
    place.world.store.flip(place.keys(KeyKind.SNAPSHOT)[0])


@situation("damaged claim")
def damaged_claim(place: Place) -> None:
    """A byte of a claim of `tier` is wrong"""
    place.world.store.flip(place.keys(KeyKind.CLAIM)[0])


@situation("damaged saved configs")
def damaged_saved_configs(place: Place) -> None:
    """The saved configs of a topic are damaged, and no run has paused the topic"""
    key = keys.unblock(PARTITION.topic, PARTITION.topic_id or "")
    place.world.store.put_if_absent(key, b'{"version":1,"clusterId":"damaged')


@situation("topic deleted")
def topic_deleted(place: Place) -> None:
    """The topic was deleted, and brokers have deleted its segments"""
    place.world.brokers.begin_deletion()
    place.world.brokers.end_deletion()


@situation("topic made anew")
def topic_made_anew(place: Place) -> None:
    """The topic was deleted and created again with another id, but its remote segments were not deleted"""
    topic = place.world.cluster.there[PARTITION.topic]
    topic.topic_id = "AAAAAAAAAAAAAAAAAAAAAg"


@situation("unmanaged")
def unmanaged(place: Place) -> None:
    """The cluster was created again: it has neither the topic nor any record of it"""
    place.world.cluster.there.clear()
    place.world.cluster.log.clear()


@situation("no metadata topic")
def no_metadata_topic(place: Place) -> None:
    """The cluster has no `__remote_log_metadata`, so its brokers do not tier"""
    cluster = place.world.cluster
    counts = cluster.partition_counts
    cluster.partition_counts = dict  # type: ignore[method-assign]
    place.stack.callback(setattr, cluster, "partition_counts", counts)


@situation("cluster away")
def cluster_away(place: Place) -> None:
    """No broker answers"""

    def away(*_: object) -> None:
        raise BrokerUnavailableError("no answer")

    place.world._ask = away  # type: ignore[method-assign]


@situation("cluster refuses")
def cluster_refuses(place: Place) -> None:
    """Brokers refuse the requests of this user"""

    def refuse(*_: object) -> None:
        raise ClusterRefusedError("TOPIC_AUTHORIZATION_FAILED", code="TOPIC_AUTHORIZATION_FAILED")

    place.world._ask = refuse  # type: ignore[method-assign]


@situation("store away")
def store_away(place: Place) -> None:
    """Remote storage does not answer"""
    faults = place.world.faults
    faults.of = lambda name, _: Fault.LOST_REQUEST if hasattr(MemoryStore, name) else None  # type: ignore[method-assign]


@situation("store refuses")
def store_refuses(place: Place) -> None:
    """Remote storage refuses the requests of this user"""

    def refuse(name: str, _: str) -> None:
        if hasattr(MemoryStore, name):
            raise RemoteStorageError("AccessDenied", hint="ask who may")

    place.world.faults.of = refuse  # type: ignore[method-assign, assignment]


@situation("target has it")
def target_has_it(place: Place) -> None:
    """The target log directory already has the partition, with other files"""
    (place.target / "orders-0").mkdir()
    (place.target / "orders-0" / f"{0:020d}.log").write_bytes(b"other")


@situation("target runs")
def target_runs(place: Place) -> None:
    """A broker runs on the target log directory"""
    for disk in (place.target, place.replica):
        (disk / ".lock").touch()
        place.stack.enter_context(broker(disk))


@situation("target full")
def target_full(place: Place) -> None:
    """No byte is free in the target log directory"""
    for name, source in (("new", place.target), ("replica", place.replica)):
        disk = SmallDisk(place.world.folder / "full" / name, 1)
        place.stack.callback(disk.close)
        if not disk.is_small:
            raise CannotBeLaidOutError("only root mounts a small disk")
        shutil.copytree(source, disk.folder, dirs_exist_ok=True)
        disk.fill()
        with (disk.folder / "rest").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        setattr(place, "target" if name == "new" else name, disk.folder)
