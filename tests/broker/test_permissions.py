"""What a user of the cluster must be allowed to do, and what is said and done where one permission is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from tests.broker.harness.damage import drop_snapshot, segment_bases
from tests.broker.harness.disks import backup_of
from tests.broker.harness.places import QUICK
from tests.broker.harness.reading import read_all
from tests.broker.harness.remote_log_metadata import TOPIC as METADATA_TOPIC
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.scenarios import CURRENT_VERSION, FAILING_INTERVAL_MS, TOPIC
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import alter_topic
from tests.broker.harness.unblocking import make_stick, own_settings
from tests.broker.harness.users import CLUSTER, GuardedBroker, allow, take_back
from tests.broker.harness.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.kafka(CURRENT_VERSION)]

# READ and WRITE imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS: each alone is taken back here.
NEEDED = {
    TOPIC: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    METADATA_TOPIC: (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE),
    CLUSTER: (AclOperation.DESCRIBE_CONFIGS,),
}


@dataclass(frozen=True)
class Ran:
    """A command's exit code, result and messages."""

    exit_code: int
    out: str
    err: str


@dataclass(frozen=True)
class Host:
    """A host that has a copy of the log directory, and sees no process of the broker with it."""

    broker: GuardedBroker
    log_dir: Path
    root: Path

    def run(self, command: str) -> Ran:
        """Run `tier`, `publish` or `run` with `--apply` as USER."""
        tier = self.broker.tier
        assert tier is not None
        words = [command, "--remote", str(tier.directory), "--topic", TOPIC, "--apply"]
        words += ["--layout", tier.layout]
        words += ["--bootstrap-server", self.broker.guarded, "--command-config", str(self.broker.command_config())]
        if command == "run":
            words += ["--source", str(self.log_dir), "--warehouse", str(self.root / "warehouse")]
            words += ["--report", str(self.root / "report")]
        else:
            words.append(str(self.log_dir))
        program = [sys.executable, "-m", "tests.reference.tiersnap", "--output", "json", *words]
        ran = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    @property
    def changes(self) -> int:
        """How often the broker was told of other configs of the topic."""
        return self.broker.log.count(f"Updating topic {TOPIC} with new configuration")


@pytest.fixture(scope="module")
def host(current_disks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A broker whose copy task fails at its fifth segment; USER has all permissions that are needed."""
    root = tmp_path_factory.mktemp("permissions")
    disks = current_disks.copy_to(root / "disks")
    drop_snapshot(disks.partition(TOPIC), segment_bases(disks.partition(TOPIC))[5])
    tier = LocalTier(root / "tier", FAILING_INTERVAL_MS)
    with GuardedBroker(disks, CURRENT_VERSION, tier=tier, settings=QUICK) as broker:
        make_stick(broker, {"retention.ms": "604800000"})
        for resource, operations in NEEDED.items():
            allow(broker, resource, operations)
        host = Host(broker, backup_of(disks.log_dir, root / "copy"), root)
        assert host.changes, "the broker logs them"
        yield host


@contextmanager
def without(host: Host, resource: str, operation: AclOperation) -> Iterator[None]:
    implying = (AclOperation.READ, AclOperation.WRITE) if operation is AclOperation.DESCRIBE else ()
    taken = [each for each in (operation, *implying) if each in NEEDED[resource]]
    for each in taken:
        take_back(host.broker, resource, each)
    try:
        yield
    finally:
        allow(host.broker, resource, taken)


@pytest.mark.parametrize(
    ("command", "resource", "operation"),
    [
        ("tier", TOPIC, "READ"),
        ("run", TOPIC, "READ"),
        ("tier", TOPIC, "DESCRIBE"),
        ("run", TOPIC, "DESCRIBE"),
        ("publish", METADATA_TOPIC, "DESCRIBE"),
        ("publish", METADATA_TOPIC, "READ"),
        ("publish", METADATA_TOPIC, "WRITE"),
        ("publish", TOPIC, "ALTER_CONFIGS"),
        ("tier", METADATA_TOPIC, "READ"),
        ("tier", METADATA_TOPIC, "WRITE"),
        ("tier", TOPIC, "ALTER_CONFIGS"),
        ("run", METADATA_TOPIC, "READ"),
    ],
)
def test_missing_permission_is_named_and_nothing_is_paused(host, command, resource, operation):
    assert host.broker.tier is not None
    before, changes, told = own_settings(host.broker), host.changes, states(host.broker, TOPIC)["COPY_SEGMENT_FINISHED"]
    complete = host.broker.tier.complete_bases(TOPIC)
    with without(host, resource, AclOperation[operation]):
        ran = host.run(command)
    said = ran.out + ran.err
    assert ran.exit_code in (2, 4), said
    assert any(operation in line and resource in line for line in said.splitlines()), said
    assert (host.changes, own_settings(host.broker)) == (changes, before), "copying is never paused"
    assert states(host.broker, TOPIC)["COPY_SEGMENT_FINISHED"] == told == 4
    if (resource, operation) == (TOPIC, "READ"):
        bases = segment_bases(host.broker.disks.partition(TOPIC))
        uploaded = {"tier": complete, "run": tuple(bases[:10])}
        assert host.broker.tier.complete_bases(TOPIC) == uploaded[command], "tier reads a record before it uploads"


def test_permissions_that_are_needed_suffice(host):
    """The last test of this broker: brokers are told, and local retention deletes the files."""
    before, folder = own_settings(host.broker), host.broker.disks.partition(TOPIC)
    records, bases = read_all(host.broker, TOPIC), segment_bases(folder)
    ran = host.run("run")
    assert (ran.exit_code, own_settings(host.broker)) == (0, before), ran.err
    alter_topic(host.broker, TOPIC, {"local.retention.bytes": "1"})
    wait_until(lambda: segment_bases(folder) == bases[-1:], "local retention deletes all closed segments")
    assert read_all(host.broker, TOPIC) == records
