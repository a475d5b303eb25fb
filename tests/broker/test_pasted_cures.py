"""Brokers in need, cured by `doctor` and the commands that it prints, pasted by a script.

Kafka itself confirms each cure, see `Need.assert_cured`. The commands and acts must be those of the record, of which
docs/guarantees.md has a table: RENEW_CURES=1 writes the record anew.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest

from tests.broker.harness import jars, stuck_brokers
from tests.broker.harness.disks import Disks
from tests.broker.harness.pasting import Cure, cured
from tests.broker.harness.scenarios import CURRENT_VERSION, LEGACY_VERSION
from tests.broker.harness.stuck_brokers import Stage
from tests.broker.harness.tiering import AivenS3Tier, LocalTier
from tests.pasted_cures import PastedCure, recorded, write

pytestmark = pytest.mark.broker


@dataclass(frozen=True)
class Variant:
    """A situation under a release of Kafka."""

    situation: str
    version: str = CURRENT_VERSION
    mode: str = "KRaft"
    is_on_s3: bool = False

    @property
    def words(self) -> str:
        """Return the situation in words."""
        return self.situation.replace("_", " ")

    def record(self, cure: Cure) -> PastedCure:
        """Return the row of the record."""
        storage = "Aiven plugin on S3" if self.is_on_s3 else "LocalTieredStorage"
        commands = [f"`{name}` {exit_code}" for name, exit_code in cure.commands()]
        kafka = f"{self.version} {self.mode}"
        return PastedCure(self.words, kafka, storage, cure.rounds, commands, cure.acts(), round(cure.seconds))


SITUATIONS = (
    *("full_disk", "full_disk_of_a_stopped_broker", "hung_copy", "failing_copy_task"),
    *("lost_leader_epochs", "wrong_location", "rebuilt_replica"),
)
STUCK = [
    Variant("missing_snapshot", version, mode, is_on_s3)
    for is_on_s3 in (False, True)
    for version, mode in (("3.9.1", "ZooKeeper"), ("3.9.1", "KRaft"), (CURRENT_VERSION, "KRaft"), ("4.4.0", "KRaft"))
]


def variants() -> Iterator[object]:
    """Yield each stuck situation and each release."""
    for each in (*STUCK, *map(Variant, SITUATIONS)):
        written_by = (LEGACY_VERSION,) if each.mode == "ZooKeeper" else ()
        name = f"{each.situation}-{each.version}-{each.mode}{'-s3' * each.is_on_s3}"
        yield pytest.param(each, marks=pytest.mark.kafka(each.version, *written_by), id=name)


@pytest.fixture
def stage(
    variant: Variant,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    disks_of: Callable[[str], Disks],
    copy_of: Callable[[Disks], Disks],
) -> Stage:
    def laid(version: str) -> Disks:
        return copy_of(request.getfixturevalue("legacy_disks")) if variant.mode == "ZooKeeper" else disks_of(version)

    def tier(interval_ms: int) -> LocalTier:
        if not variant.is_on_s3:
            return LocalTier(tmp_path / "tier", interval_ms)
        try:
            plugin = jars.aiven_plugin(variant.version)
        except jars.JarsMissingError as missing:
            pytest.skip(str(missing))
        endpoint, bucket = request.getfixturevalue("endpoint"), f"cures-{uuid.uuid4().hex}"
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=bucket)
        return AivenS3Tier(tmp_path / bucket, interval_ms, jars=plugin, endpoint=endpoint)

    return Stage(variant.version, tmp_path, laid, tier)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", list(variants()))
def test_commands_of_doctor_cure_a_broker_in_need(variant: Variant, stage: Stage) -> None:
    with getattr(stuck_brokers, variant.situation)(stage) as need:
        cure = cured(need.host, need.doctor, need.by_hand, need.filled)
        assert cure.ended_with == 0
        need.assert_cured()
    found = variant.record(cure)
    print(found)
    if os.environ.get("RENEW_CURES"):
        write(found)
    known = recorded(found)
    assert known is not None
    assert (found.rounds, found.commands, found.by_hand) == (known.rounds, known.commands, known.by_hand)
