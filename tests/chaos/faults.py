"""The faults themselves, each healed before the next begins."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException

from tests.broker.harness.damage import (
    drop_index,
    drop_snapshot,
    drop_snapshots_but_newest,
    drop_time_index,
    forget_clean_shutdown,
    offsets,
)
from tests.broker.harness.waiting import NotInTimeError, wait_until
from tests.chaos.cluster import MADE_AGAIN, SEGMENT_BYTES, STUCK, TOPICS, UNCLEAN, Cluster
from tests.chaos.history import History
from tests.chaos.operator import UNHARMED, Harm, run_command, unblock_words
from tests.chaos.replica_move import move_replica
from tests.chaos.schedule import NODES, Fault
from tests.chaos.writers import Writer

# With the stamps of writers.JUMPS_MS less than a day in sum, after which brokers forget a producer.
JUMPS_HOURS = (-11, -1, 2, 7)
STUCK_SECONDS = 10.0  # until a copier that tries every 2 s has failed often enough to be called stuck


@dataclass
class Storm:
    """Carries out faults, one after another.

    Attributes:
        is_control: no tiersnap: the same faults to a cluster alone.
    """

    cluster: Cluster
    history: History
    writers: list[Writer]
    is_control: bool = False

    def strike(self, fault: Fault) -> None:
        """Carry out a fault; one that cannot be, as the cluster is now, is told and passed over."""
        self.history.tell("fault", name=fault.name, node=fault.node, seconds=round(fault.seconds, 1))
        strike: Callable[[Fault], None] = getattr(self, fault.name)
        try:
            strike(fault)
        except (KafkaException, NotInTimeError, TimeoutError, OSError) as error:
            self.history.tell("fault", name=f"{fault.name} was not finished", error=str(error)[:500])
        finally:
            self.heal()

    def heal(self) -> None:
        """Every disk has room, every clock is right, every node runs."""
        for disk in (*self.cluster.disks.values(), self.cluster.remote_disk):
            disk.empty()
        for node in (self.cluster.controller, *self.cluster.brokers.values()):
            node.clock.set(0)
            if not node.running:
                node.start()

    def kill(self, fault: Fault) -> None:
        """Kill -9, another one too sometimes."""
        self.cluster.brokers[fault.node].kill()
        if fault.draw < 0.3:
            time.sleep(fault.seconds / 3)
            self.cluster.brokers[fault.node % len(NODES) + 1].kill()
        time.sleep(fault.seconds)

    def restart(self, fault: Fault) -> None:
        """Stop cleanly, so that leaders move first; then ask for the preferred ones again."""
        node = self.cluster.brokers[fault.node]
        node.stop()
        time.sleep(fault.seconds)
        node.start()
        for topic in TOPICS:
            self.cluster.elect(topic)

    def pause(self, fault: Fault) -> None:
        """Hold a broker, often until another one leads; then it goes on with what it had begun."""
        process = self.cluster.brokers[fault.node].process
        assert process is not None
        process.pause()
        try:
            time.sleep(3 * fault.seconds)
        finally:
            process.resume()

    def kill_controller(self, fault: Fault) -> None:
        """Nobody elects, fences or configures for a while."""
        self.cluster.controller.kill()
        time.sleep(2 * fault.seconds)

    def jump_clock(self, fault: Fault) -> None:
        """A running broker's, and back again. Then it is killed: while a clock is behind what it showed before,
        Kafka's clients, those of brokers too, do not connect again."""
        node = self.cluster.brokers[fault.node]
        if node.clock.can_jump:
            hours = JUMPS_HOURS[int(fault.draw * len(JUMPS_HOURS))]
            self.history.tell("fault", name="clock jumps", node=fault.node, hours=hours)
            node.clock.set(hours)
            time.sleep(4 + 2 * fault.seconds)
            node.clock.set(0)
            node.kill()

    def lose_snapshots(self, fault: Fault) -> None:
        self._damage(fault, _drop_snapshots)

    def lose_indexes(self, fault: Fault) -> None:
        self._damage(fault, _drop_indexes)

    def _damage(self, fault: Fault, damage: Callable[[Cluster, int, random.Random], int]) -> None:
        """Stop or kill a broker, harm its files, have tiersnap repair them or not, start it."""
        chance = random.Random(fault.draw)
        node = self.cluster.brokers[fault.node]
        if chance.random() < 0.5:
            node.stop()
        else:
            node.kill()
        if chance.random() < 0.3:
            forget_clean_shutdown(node.disks)
        self.history.tell(
            "fault", name="files are gone", node=fault.node, files=damage(self.cluster, fault.node, chance)
        )
        if not self.is_control and chance.random() < 0.6:
            where = ("--remote", self.cluster.remote, "--layout", "local-tiered-storage")
            words = ("repair", *self.cluster.log_dirs(fault.node), *(where if chance.random() < 0.5 else ()), "--apply")
            harm = Harm(killed=chance.uniform(0.8, 3.0)) if chance.random() < 0.4 else UNHARMED
            run_command(self.history, *words, node=fault.node, harm=harm)
            if harm.killed:
                run_command(self.history, *words, node=fault.node)

    def stick(self, fault: Fault) -> None:
        """The problem that tiersnap is for: the leader has closed segments to copy, and no snapshots of them."""
        preferred = self.cluster.state(STUCK).preferred
        self._let_copy(STUCK, is_on=False)
        try:
            time.sleep(6 + fault.seconds)
            node = self.cluster.brokers[preferred]
            node.stop()
            folder = self.cluster.folder(preferred, STUCK)
            gone = drop_snapshots_but_newest(folder, 1) if folder else []
            self.history.tell("fault", name="files are gone", node=preferred, files=len(gone))
            node.start()

            def leads() -> bool:
                self.cluster.elect(STUCK)
                return self.cluster.state(STUCK).leader == preferred

            self._until(leads, "the preferred replica leads")
        finally:
            self._let_copy(STUCK, is_on=True)
        time.sleep(STUCK_SECONDS)
        if not self.is_control:
            words = unblock_words(self.cluster, preferred, STUCK)
            if fault.draw < 0.5:
                run_command(self.history, *words, node=preferred, harm=Harm(killed=2 + 6 * fault.draw))
            run_command(self.history, *words, node=preferred)

    def _let_copy(self, topic: str, *, is_on: bool) -> None:
        # While copying rests, Kafka takes no local retention of the topic's own.
        local = TOPICS[topic]["local.retention.bytes"] if is_on else "-2"
        self._set(topic, {"remote.log.copy.disable": "false" if is_on else "true", "local.retention.bytes": local})

    def unclean_election(self, fault: Fault) -> None:
        """The two followers miss what the leader is told; then it dies, and one of them leads."""
        self._until(lambda: self.cluster.state(UNCLEAN).leader in NODES, "there is a leader")
        leader = self.cluster.state(UNCLEAN).leader
        followers = [node for node in NODES if node != leader]
        for node in followers:
            self.cluster.brokers[node].kill()
        self._until(lambda: self.cluster.state(UNCLEAN).isr == [leader], "only the leader is in sync")
        time.sleep(fault.seconds)
        self.cluster.brokers[leader].kill()
        self.history.tell("unclean", topic=UNCLEAN)
        following = followers[int(fault.draw * len(followers))]
        self.cluster.brokers[following].start()

        def elected() -> bool:
            self.cluster.elect(UNCLEAN, unclean=True)
            return self.cluster.state(UNCLEAN).leader == following

        self._until(elected, "a replica that lagged leads")
        time.sleep(fault.seconds)

    def trim(self, fault: Fault) -> None:
        """DeleteRecords up to somewhere in the older half."""
        topic = _drawn(fault, list(TOPICS))
        start, _, stable = self.cluster.offsets(topic)
        before = start + int((stable - start) * fault.draw / 2)
        if before > start:
            generation = self.cluster.generations[topic]
            self.cluster.trim(topic, before)
            self.history.tell("trimmed", topic=topic, generation=generation, before=before)

    def shorten_retention(self, fault: Fault) -> None:
        topic = _drawn(fault, ["copied", "published", "unclean"])
        self.cluster.alter(topic, {"retention.bytes": str(6 * SEGMENT_BYTES)})
        time.sleep(5 + fault.seconds)
        self._set(topic, {"retention.bytes": "-1"})

    def _set(self, topic: str, settings: dict[str, str]) -> None:
        """Until a controller has taken it."""

        def is_set() -> bool:
            with contextlib.suppress(KafkaException, TimeoutError):
                self.cluster.alter(topic, settings)
                return True
            return False

        wait_until(is_set, f"{topic} has {settings}", seconds=120)

    def make_topic_again(self, fault: Fault) -> None:
        writers = [writer for writer in self.writers if writer.topic == MADE_AGAIN]
        for writer in writers:
            writer.pause.set()
        try:
            for writer in writers:
                writer.resting.wait(90)
            # What a writer that has ended had on the wire must not arrive in the topic that comes.
            time.sleep(2)
            self.cluster.delete(MADE_AGAIN)
            time.sleep(fault.seconds)
            self._until(self._made, "the topic is there again")
            for writer in writers:
                writer.generation = self.cluster.generations[MADE_AGAIN]
        finally:
            for writer in writers:
                writer.pause.clear()

    def _made(self) -> bool:
        with contextlib.suppress(KafkaException, TimeoutError):
            self.cluster.make(MADE_AGAIN)
            self.history.tell("topic", topic=MADE_AGAIN, generation=self.cluster.generations[MADE_AGAIN], clean=True)
            return True
        return False

    def move_replica(self, fault: Fault) -> None:
        """To the broker's other log directory, while it goes on."""
        topic = _drawn(fault, list(TOPICS))
        folder = self.cluster.folder(fault.node, topic)
        if folder is not None:
            (other,) = (log_dir for log_dir in self.cluster.log_dirs(fault.node) if log_dir != folder.parent)
            error = move_replica(self.cluster.brokers[fault.node].port, topic, other)
            self.history.tell("fault", name="replica moves", node=fault.node, topic=topic, error=error)
            time.sleep(fault.seconds)

    def fill_disk(self, fault: Fault) -> None:
        """A broker that lost a log directory to a full disk has to be started again."""
        disk = self.cluster.disks[fault.node]
        if disk.is_small:
            try:
                disk.fill()
                time.sleep(3 + fault.seconds)
            finally:
                disk.empty()
                self.cluster.brokers[fault.node].kill()

    def fill_remote(self, fault: Fault) -> None:
        if self.cluster.remote_disk.is_small:
            self.cluster.remote_disk.fill()
            time.sleep(3 + fault.seconds)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            with contextlib.suppress(KafkaException, TimeoutError):
                return condition()
            return False

        wait_until(holds, what, seconds=90, every=0.5)


def _drawn(fault: Fault, names: list[str]) -> str:
    return names[int(fault.draw * len(names))]


def _drop_snapshots(cluster: Cluster, node: int, chance: random.Random) -> int:
    """Of each topic all, all but the newest ones, or any; returns how many files went."""
    gone = 0
    for topic in TOPICS:
        folder = cluster.folder(node, topic)
        there = offsets(folder, ".snapshot") if folder else []
        keep = chance.choice((0, 1, 3))
        wanted = (
            there[: len(there) - keep] if chance.random() < 0.6 else [each for each in there if chance.random() < 0.4]
        )
        for offset in wanted:
            assert folder is not None
            drop_snapshot(folder, offset)
            gone += 1
    return gone


def _drop_indexes(cluster: Cluster, node: int, chance: random.Random) -> int:
    gone = 0
    for topic in TOPICS:
        folder = cluster.folder(node, topic)
        for base in offsets(folder, ".index") if folder else []:
            if chance.random() < 0.3:
                assert folder is not None
                with contextlib.suppress(FileNotFoundError):
                    (drop_index if chance.random() < 0.6 else drop_time_index)(folder, base)
                    gone += 1
    return gone
