"""Random scenarios, and how each must end: from every state the last commands end with 0 and leave nothing behind.

PUBLISHED   copying is off: tier, publish, restore and remove-orphans
STUCK       copying is on and the copier lacks snapshots: unblock, tier and remove-orphans
UNMANAGED   no cluster has the topic: tier and restore
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random

from tests.protocol import commands
from tests.protocol.faults import Fault
from tests.protocol.logs import BASES, END, PARTITION, ROLLED_LATER, template
from tests.protocol.world import DAY, HOUR, Hand, World
from tests.reference.kept_proof import keep_proof
from tests.reference.listed_claims import list_claims
from tests.reference.model_cluster import CLUSTER_ID, ENDLESS, STORAGE_MANAGER
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.snapshot.errors import ExitCode

Command = Callable[[Hand], ExitCode]
_OF_A_COPY = (KeyKind.LOG, KeyKind.INDEXES, KeyKind.RSM_MANIFEST)


class Kind(StrEnum):
    """See the module."""

    PUBLISHED = "PUBLISHED"
    STUCK = "STUCK"
    UNMANAGED = "UNMANAGED"


LAST = {
    Kind.PUBLISHED: ("a tier", "c publish", "c orphans"),
    Kind.STUCK: ("a unblock", "c orphans"),
    Kind.UNMANAGED: ("a tier",),
}
"""The commands that must come to an end."""


@dataclass(frozen=True)
class Trouble:
    """What may go wrong.

    Attributes:
        faults: of single requests.
        rates: shares of requests, one of them a round.
        deletes: somebody deletes the topic.
        loses: the store loses an object of a copy for good.
        damages: the store damages a snapshot object for good.
        spoils: it damages an object of a copy.
        mends: somebody runs `mend`, which asks the cluster.
    """

    faults: tuple[Fault, ...] = ()
    rates: tuple[float, ...] = (0.0,)
    deletes: bool = False
    loses: bool = False
    damages: bool = False
    spoils: bool = False
    mends: bool = False


DEATHS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST_REQUEST, Fault.LOST_ANSWER)
TROUBLES = {
    "deaths": Trouble(DEATHS, (0.0, 0.01, 0.04), deletes=True),
    "late puts": Trouble((Fault.LATE, Fault.LOST_REQUEST), (0.05, 0.1)),
    "flipped reads": Trouble((Fault.FLIPPED_READ,), (0.4, 0.8)),
    "lying puts": Trouble((Fault.LOST_PUT, Fault.WRONG_PUT), (0.02, 0.1)),
    "left uploads": Trouble((Fault.LOST_CREATE, Fault.CRASH_BEFORE, Fault.INTERRUPT), (0.02, 0.1)),
    "lost objects": Trouble(loses=True),
    "damaged snapshots": Trouble((Fault.CRASH_BEFORE,), (0.02, 0.05), damages=True),
    "mended losses": Trouble(DEATHS, (0.0, 0.01, 0.04), loses=True, mends=True),
    "mended damage": Trouble((*DEATHS, Fault.FLIPPED_READ), (0.0, 0.01, 0.04), spoils=True, mends=True),
    "mended trouble": Trouble(tuple(Fault), (0.0, 0.01, 0.04), True, True, True, True, True),
    "everything": Trouble(tuple(Fault), (0.0, 0.01, 0.04), deletes=True, loses=True, damages=True),
}


@dataclass
class Scenario:
    """One of them, played by `play`.

    Attributes:
        is_gone: whether brokers have ended the deletion of the topic.
        is_over: whether nothing goes wrong any more.
    """

    seed: int
    folder: Path
    kind: Kind
    trouble: Trouble = TROUBLES["deaths"]
    world: World = field(init=False)
    is_gone: bool = False
    is_over: bool = False

    def __post_init__(self) -> None:
        self.dice = dice = Random(f"{self.kind} {self.seed}")
        # If both go wrong, nobody can tell a loss from a deletion: tier says GAP_IN_REMOTE.
        # And mend makes a segment right only from a log that rolled where it did.
        loses = self.trouble.loses or self.trouble.spoils or Fault.LOST_PUT in self.trouble.faults
        later = ROLLED_LATER if dice.random() < 0.3 and not loses else BASES
        snapshots = {*dice.sample(BASES[1:], dice.randint(0, 2))} if dice.random() < 0.7 else {*BASES}
        if self.kind is Kind.STUCK:
            snapshots = {*BASES[1 : dice.randint(1, 3)]}
        self.world = World(dice, self.folder, {"a": BASES, "b": later}, snapshots)
        self.world.meanwhile = self._meanwhile
        self.world.cluster.of_brokers[STORAGE_MANAGER] = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
        if self.kind is not Kind.UNMANAGED:
            # Or a location that lost all that brokers uploaded would be taken for another one.
            keep_proof(self.world.cluster, self.world.store)
            own = ENDLESS if self.kind is Kind.PUBLISHED else {"retention.ms": "-1"}
            self.world.cluster.create(PARTITION, end=20, settings=own)
            self.settings = self.world.cluster.settings(PARTITION.topic)

    def play(self) -> None:
        """Some rounds with trouble, and the last ones without."""
        faults = self.world.faults
        for _ in range(self.dice.randint(2, 4)):
            faults.kinds, faults.rate = self.trouble.faults, self.dice.choice(self.trouble.rates)
            names = self.dice.sample(sorted(self._commands()), self.dice.choice((1, 1, 2, 2, 3)))
            self.world.run({f"{number} {name}": self._commands()[name] for number, name in enumerate(names)})
            pause = self.dice.choice((1_000, 60_000, HOUR // 2, 2 * HOUR, 2 * DAY))
            if pause > HOUR:
                faults.deliver()  # no request is so late
            self.world.advance(pause)
            if self.dice.random() < 0.3:
                faults.deliver()
        self.is_over = True
        faults.kinds = ()
        self._let_pass()
        if self.is_deleted:
            self._settle_deleted()
        else:
            self._settle()

    def _commands(self) -> dict[str, Command]:
        world = self.world
        found: dict[str, Command] = {
            "a tier": lambda hand: commands.tier(world, hand, "a"),
            "b tier": lambda hand: commands.tier(world, hand, "b"),
        }
        if self.trouble.mends:
            found["e mend"] = lambda hand: commands.mend(world, hand)
        if self.kind is Kind.UNMANAGED:
            return found | {"c restore": lambda hand: commands.restore(world, hand, asks=False)}
        found["c orphans"] = lambda hand: commands.remove_orphans(world, hand)
        if self.kind is Kind.STUCK:
            return found | {"a unblock": lambda hand: commands.unblock(world, hand)}
        return found | {
            "c publish": lambda hand: commands.publish(world, hand),
            "d publish": lambda hand: commands.publish(world, hand),
            "d restore": lambda hand: commands.restore(world, hand, asks=True),
        }

    # What others do between two requests.

    def _meanwhile(self) -> None:
        lot = self.dice.random()
        if self.is_over:
            return
        if self.trouble.deletes and lot < 0.003:
            self._delete()
        if self.is_deleted and not self.is_gone and lot < 0.1:
            self._end_deletion()
        if lot < 0.002:
            self.world.faults.deliver()
        if self.kind is Kind.STUCK and not self.is_deleted and 0.5 < lot < 0.5015:
            self._help_the_copier(is_mended=lot < 0.5005)
        if self.trouble.loses and lot > 0.97:
            self._spoil(*_OF_A_COPY)
        if self.trouble.damages and lot > 0.97:
            self._spoil(KeyKind.SNAPSHOT)
        if self.trouble.spoils and 0.96 < lot <= 0.97:
            self._spoil(*_OF_A_COPY, by_flipping=True)

    @property
    def is_deleted(self) -> bool:
        """Whether the cluster has no such topic any more."""
        return self.kind is not Kind.UNMANAGED and PARTITION.topic not in self.world.cluster.there

    def _delete(self) -> None:
        if self.kind is Kind.UNMANAGED or self.is_deleted:
            return
        with self.world.event("the topic is deleted"):
            self.world.brokers.begin_deletion()
        for disk in self.world.disks.values():
            shutil.rmtree(disk / "orders-0")

    def _end_deletion(self) -> None:
        with self.world.event("its segments are deleted"):
            self.world.brokers.end_deletion()
        self.is_gone = True

    def _help_the_copier(self, *, is_mended: bool) -> None:
        if is_mended:
            with self.world.event("somebody repairs the leader's snapshots"):
                self.world.brokers.mend(template(BASES) / "orders-0")
        else:
            with self.world.event("the leader starts anew"):
                self.world.brokers.restart()

    def _spoil(self, *kinds: KeyKind, by_flipping: bool = False) -> None:
        """The store loses an object, or damages one: of a copy, only of those that brokers read."""
        store = self.world.store
        parsed = {key: keys.recognise(key) for key in sorted(store.objects)}
        known = {key: found for key, found in parsed.items() if found is not None and found.kind in kinds}
        if by_flipping:  # what is damaged twice would be right again
            read = {each.id.segment_id for each in self.world.brokers.index().finished()}
            known = {
                key: found for key, found in known.items() if found.segment_id in read and store.objects[key].is_right
            }
        if not known:
            return
        key = self.dice.choice(list(known))
        with self.world.event(f"the store spoils {key}"):
            if KeyKind.SNAPSHOT in kinds or by_flipping:
                store.flip(key)
                self.world.is_damaged = True
                self.world.is_lost |= by_flipping
            else:
                store.delete([key])
                self.world.is_damaged = self.world.is_lost = True

    # How it must end.

    def _settle(self) -> None:
        """Whatever happened, the last commands end with 0, or name what is lost, and nothing is left behind."""
        world = self.world
        for _ in range(2 if self.kind is Kind.UNMANAGED else 3):
            codes = [self._alone(name) for name in LAST[self.kind]]
            self._let_pass()
            if not any(codes) and not self.left_behind():
                break
        if self.kind is Kind.UNMANAGED and world.is_lost and codes == [ExitCode.GATE_REFUSED]:
            codes = []  # GAP_IN_REMOTE: the oldest segments are lost without a trace, as retention deletes them
        if self.kind is not Kind.UNMANAGED:
            assert world.cluster.settings(PARTITION.topic) == self.settings, world.story()
            if self.trouble.mends:
                codes = self._mend_all()
            if world.readable() != {*range(END)} and self._name_what_is_lost():
                return
            assert world.readable() == {*range(END)}, world.story()
        assert not any(codes), f"{codes}: {world.story()}"
        left = self.left_behind()
        assert not left, f"{left}: {world.story()}"
        assert self.kind is not Kind.UNMANAGED or self._alone("c restore") == 0, world.story()

    def _mend_all(self) -> list[ExitCode | None]:
        """All that brokers look for is there again and right, whatever happened: the leader has the whole log.

        What took the place of a lost segment meanwhile is needed no more; the last commands see that.
        """
        world = self.world
        codes = [self._alone("e mend") for _ in range(2)]
        assert codes[-1] is ExitCode.OK, f"{codes}: {world.story()}"
        left = world.known() - world.readable(sound=True)
        assert not left, f"offsets {sorted(left)} are not mended: {world.story()}"
        self._let_pass()
        return [self._alone(name) for name in LAST[self.kind]]

    def _name_what_is_lost(self) -> bool:
        """With copying off `tier` and `publish` put copies of ours in the place of what is lost, or name it.

        If all that is left is ours and was never published, only the cluster tells a loss from a deletion.
        """
        world = self.world
        assert world.is_lost, world.story()
        world.cluster.change_settings(PARTITION.topic, ENDLESS)
        world.run({"a tier": lambda hand: commands.tier(world, hand, "a", asks=True)})
        code = world.run({"c publish": lambda hand: commands.publish(world, hand)})["c publish"]
        return code is ExitCode.DATA_CORRUPT or (code is ExitCode.OK and world.readable() == {*range(END)})

    def _settle_deleted(self) -> None:
        """Nothing is left of the topic; but if brokers never heard of its segments, remove-orphans says so."""
        if not self.is_gone:
            self._end_deletion()
        self._let_pass()
        codes = [self._alone("c orphans") for _ in range(2)]
        left, is_known = self.left_behind(), any(True for _ in self.world.cluster.records(PARTITION))
        assert not (left and is_known), f"{left}: {self.world.story()}"
        assert codes[-1] == (ExitCode.GATE_REFUSED if left else ExitCode.OK), f"{codes}: {self.world.story()}"

    def _let_pass(self) -> None:
        """The last requests arrive, and grow old."""
        self.world.faults.deliver()
        self.world.advance(2 * DAY)

    def _alone(self, name: str) -> ExitCode | None:
        return self.world.run({name: self._commands()[name]})[name]

    def left_behind(self) -> list[str]:
        """Objects that nobody needs and that hold user data, or that cost money."""
        objects = self.world.store.objects.keys() - {keys.read_back(CLUSTER_ID)}
        parsed = {key: keys.recognise(key) for key in sorted(objects)}
        needed = self._needed()
        unfinished = [upload.key for upload in self.world.store.uploads.values()]
        return unfinished + [
            key
            for key, found in parsed.items()
            if found is None or (found.kind in _OF_A_COPY and found.segment_id not in needed)
        ]

    def _needed(self) -> set[str | None]:
        if self.is_deleted:
            return set()
        if self.kind is not Kind.UNMANAGED:
            # By retention brokers delete all that they know, also a copy that was only begun (RLMExpirationTask).
            return {each.id.segment_id for each in self.world.brokers.index().segments()}
        ends = {key: self.world.end_of(key.removesuffix(".rsm-manifest")) for key in self.world.store.objects}
        # Records may name what was finished once, and no cluster is asked.
        kept = {segment_id for held in list_claims(self.world.store, PARTITION) for segment_id in held.claim.kept}
        return kept | {
            keys.recognise(key).segment_id
            for key, end in ends.items()
            if key.endswith(".rsm-manifest") and end is not None
        }
