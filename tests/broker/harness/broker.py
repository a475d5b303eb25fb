"""A real single-node broker on loopback, with its ZooKeeper where the disks are of that kind."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.broker.harness.disks import Disks
from tests.broker.harness.ports import free_ports, listens
from tests.broker.harness.process import JavaProcess, LogFile
from tests.broker.harness.settings import broker_settings, write_properties, zookeeper_settings
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.waiting import wait_until

START_SECONDS = 60.0
ZOOKEEPER_VERSION = "2.7.2"  # whose jars hold the ZooKeeper that served those brokers; newer ones talk to it as well
_TIERING_READY = "Initialized topic-based RLMM resources successfully"
_SESSION_EXPIRED = "Expiring session"
_numbers = itertools.count(1)


class Broker:
    """One broker on `disks`; a context that starts it and ends it, cleanly unless the test failed.

    `start` after `stop` or `kill` uses the same ports again, so that clients outlive the broker.
    """

    def __init__(
        self, disks: Disks, version: str, *, tier: LocalTier | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.disks = disks
        self.version = version
        self.tier = tier
        self._settings = {**(tier.broker_settings() if tier else {}), **(settings or {})}
        if disks.mode == "zookeeper" and version.startswith("3."):
            self._settings.setdefault("inter.broker.protocol.version", version.rpartition(".")[0])
        self._ports: tuple[int, int] | None = None
        self._process: JavaProcess | None = None
        self._zookeeper: JavaProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        if self._ports is None:
            raise AssertionError("never started")
        return self._ports[0]

    @property
    def log(self) -> LogFile:
        """Output of the present or last start."""
        if self._process is None:
            raise AssertionError("never started")
        return self._process.log

    @property
    def pid(self) -> int:
        """Process id of the present or last start."""
        if self._process is None:
            raise AssertionError("never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> Broker:
        """Start, and return when a client sees a controller."""
        if self._ports is None:
            clients, other = free_ports(2)
            self._ports = clients, other
        run = f"{self.version}-{next(_numbers)}"
        output = self.disks.output_dir
        settings = broker_settings(self.disks, self._ports, self._settings)
        try:
            if self.disks.mode == "zookeeper":
                self._zookeeper = self._started_zookeeper(f"{run}-zookeeper", self._ports[1])
            path = write_properties(output / f"{run}.properties", settings)
            self._process = JavaProcess(
                self.version, "kafka.Kafka", [str(path)], output / f"{run}.log", archive_classes=True
            )
            self._wait_until_usable(self._process)
        except BaseException:
            self._end()
            raise
        return self

    def _started_zookeeper(self, run: str, port: int) -> JavaProcess:
        output = self.disks.output_dir
        path = write_properties(output / f"{run}.properties", zookeeper_settings(self.disks, port))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        zookeeper = JavaProcess(ZOOKEEPER_VERSION, main, [str(path)], output / f"{run}.log")

        def listening() -> bool:
            zookeeper.ensure_running()
            return listens(port)

        try:
            wait_until(listening, "ZooKeeper listens", seconds=START_SECONDS)
        except BaseException:
            zookeeper.kill()
            raise
        return zookeeper

    def _wait_until_usable(self, process: JavaProcess) -> None:
        def listening() -> bool:
            process.ensure_running()
            return listens(self.port)

        def has_controller() -> bool:
            process.ensure_running()
            try:
                metadata = admin.list_topics(timeout=2)
            except KafkaException:
                return False
            return metadata.controller_id >= 0 and bool(metadata.brokers)

        def tiering_ready() -> int:
            process.ensure_running()
            return process.log.count(_TIERING_READY)

        wait_until(listening, f"{self.version} listens on {self.port}", seconds=START_SECONDS, every=0.05)
        # Created only now: librdkafka reports every refused connection on stderr.
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wait_until(has_controller, f"{self.version} has a controller", seconds=START_SECONDS)
        if self.tier:
            # A broker stopped before that waits a minute for its own remote log metadata.
            wait_until(tiering_ready, _TIERING_READY, seconds=START_SECONDS)

    def stop(self) -> float:
        """Stop cleanly (the broker first: one whose ZooKeeper is gone hangs); returns the broker's seconds."""
        try:
            return self._process.stop() if self._process else 0.0
        finally:
            if self._zookeeper:
                self._zookeeper.stop()

    def kill(self) -> None:
        """`kill -9` of the broker. Its ZooKeeper, which nothing is claimed of, is stopped once the session has expired:
        until then a broker that starts finds itself registered and gives up.
        """
        zookeeper = self._zookeeper
        try:
            if self._process:
                self._process.kill()
            if zookeeper and zookeeper.running:
                wait_until(lambda: zookeeper.log.count(_SESSION_EXPIRED), _SESSION_EXPIRED)
        finally:
            self._end()

    def _end(self) -> None:
        """End whatever still runs, without ceremony."""
        try:
            if self._process:
                self._process.kill()
        finally:
            if self._zookeeper:
                self._zookeeper.kill()

    def __enter__(self) -> Broker:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self._end()
