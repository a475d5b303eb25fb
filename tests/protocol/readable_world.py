"""A world that watches bytes: after each request of a command a consumer must read all that it read before.

    world = ReadableWorld(Random(seed), folder)
    with world.event(): ...        # damage, brokers and people: not ours to answer for
    world.run({"mend": ...})       # a broken promise is raised as Broken

The answers come from tests.reference.consumer and from the leader's log as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

from tests.protocol.logs import BASES, END, LINEAGE, PARTITION, template
from tests.protocol.world import World
from tests.reference import consumer
from tests.reference.consumer import Batches, Consumer
from tiersnap.remote_storage.metadata.metadata_records import MetadataRecord


@cache
def log() -> Batches:
    """The batches of the log, by offset: those of closed segments."""
    written = consumer.local(template(BASES) / "orders-0")
    return {offset: batch for offset, batch in written.items() if offset < END}


@dataclass(frozen=True)
class Seen:
    """What consumers can read at a moment.

    Attributes:
        known: the segment id in which brokers look, by offset.
        remote: batches that remote storage gives.
        local: batches of the leader's log directory.
        held: offsets whose right batch is in the log of any remote segment under the name of its offsets.
    """

    known: dict[int, str] = field(default_factory=dict)
    remote: Batches = field(default_factory=dict)
    local: Batches = field(default_factory=dict)
    held: frozenset[int] = frozenset()

    def broken_by(self, now: Seen) -> str:
        """Return what a consumer lost, or is shown, since this moment; "" if nothing."""
        right = {offset for offset, batch in log().items() if self.remote.get(offset) == batch}
        lost = {offset for offset in right if now.remote.get(offset) != log()[offset]}
        changed = {offset for offset, batch in now.remote.items() if self.remote.get(offset) != batch}
        wrong = {offset for offset in changed if now.remote[offset] != log()[offset]}
        moved = {offset for offset, name in now.known.items() if self.known.get(offset) != name}
        unread = moved - now.remote.keys()
        gone = (self.held | self.local.keys()) - now.held - now.local.keys()
        said = {
            "became unreadable": lost,
            "are read with bytes of another log": wrong,
            "are visible and cannot be read": unread,
            "were in one log only, which is deleted": gone,
        }
        return "; ".join(f"offsets {sorted(offsets)} {what}" for what, offsets in said.items() if offsets)


@dataclass
class ReadableWorld(World):
    """See the module.

    Attributes:
        local_layout: whether brokers use LocalTieredStorage.
        changed: kinds of changes that commands made: "put", "delete", "records".
    """

    local_layout: bool = False
    changed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_damaged = self.is_lost = True  # or commands may not say so
        self.consumer = Consumer(PARTITION, LINEAGE, self.local_layout)
        self._before = Seen()
        self._at = self._size()

    def seen(self) -> Seen:
        """Return what consumers can read now."""
        objects = {key: stored.data for key, stored in self.store.objects.items()}
        index = self.brokers.index()
        held = {
            offset
            for key, data in objects.items()
            if key.endswith(".log")
            for offset, batch in _sound(data).items()
            if log().get(offset) == batch and min(_sound(data)) == base_of(key)
        }
        local = {offset: batch for offset, batch in self._local().items() if offset < END}
        return Seen(self.consumer.known(index, END), self.consumer.remote(index, objects, END), local, frozenset(held))

    def check(self) -> None:
        """See what the last request changed."""
        if self._at == self._size():
            return
        before, self._at = self._at, self._size()
        self.changed |= {"records"} if self._at[1] > before[1] else set()
        self.changed |= {"put"} if self._at[2] > before[2] else set()
        self.changed |= {"delete"} if self._at[2] < before[2] else set()
        now = self.seen()
        said = self._before.broken_by(now)
        self._promise(not said, said)
        self._before = now

    @contextmanager
    def event(self, said: str = "") -> Iterator[None]:
        """Something that is not ours to answer for."""
        self.check()
        yield
        self._before, self._at = self.seen(), self._size()
        if said:
            self.events.append(said)

    def before_put(self, key: str) -> None:
        """All is seen behind the request."""

    def before_append(self, record: MetadataRecord) -> None:
        """All is seen behind the request."""

    def _size(self) -> tuple[int, int, int]:
        objects = self.store.objects
        segments = sum(key.endswith((".log", ".indexes", ".rsm-manifest", "index", "snapshot")) for key in objects)
        return self.store.changes, sum(map(len, self.cluster.log.values())), segments

    def bases_of_other_logs(self) -> set[int]:
        """Return where remote segments begin that hold a batch of another log."""
        logs = {key: _sound(stored.data) for key, stored in self.store.objects.items() if key.endswith(".log")}
        return {
            base_of(key)
            for key, batches in logs.items()
            if any(log()[offset] != batch for offset, batch in batches.items() if offset < END)
        }

    def _local(self) -> Batches:
        found: Batches = {}
        for path in (self.disks["a"] / "orders-0").glob("*.log"):
            found |= _sound(path.read_bytes())
        return found


def base_of(key: str) -> int:
    """Return the base offset in a key of a segment's object."""
    return int(key.rpartition("/")[2][:20])


@cache
def _sound(data: bytes) -> Batches:
    return consumer.sound(data)
