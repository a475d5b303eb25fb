"""Logs written once by real brokers and copied by every test that needs one; skips where Kafka is not to be had.

A test says which versions it runs with `@pytest.mark.kafka("2.7.2", "3.9.1")`. Where their jars cannot be had it is
skipped with the reason, or fails when TIERSNAP_REQUIRE_KAFKA is set, as in CI.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.harness import jars
from tests.broker.harness.disks import Disks
from tests.broker.harness.scenarios import CURRENT_VERSION, write_current_log, write_legacy_log
from tests.broker.harness.two_disks import Lost, write_and_tier
from tests.s3.conftest import aws_environment, endpoint, settings_for  # noqa: F401
from tiersnap.remote_storage.stores.s3_client import client_of

CopyDisks = Callable[[Disks], Disks]


@pytest.fixture(scope="session", autouse=True)
def ended_brokers() -> Iterator[None]:
    """A run that is told to end (SIGTERM) ends its brokers as one that is interrupted at the terminal does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    versions = [version for marker in item.iter_markers("kafka") for version in marker.args]
    reason = jars.missing(*versions)
    if reason and os.environ.get("TIERSNAP_REQUIRE_KAFKA"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def legacy_disks(tmp_path_factory: pytest.TempPathFactory) -> Disks:
    """A topic written by 2.7.2, twelve inactive segments; to be copied, not used."""
    return write_legacy_log(tmp_path_factory.mktemp("legacy") / "disks")


@pytest.fixture(scope="session")
def current_disks(tmp_path_factory: pytest.TempPathFactory) -> Disks:
    """A topic written by CURRENT_VERSION, ten inactive segments and a snapshot for each; to be copied, not used."""
    return write_current_log(tmp_path_factory.mktemp("current") / "disks")


@pytest.fixture(scope="session")
def lost(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> Lost:  # noqa: F811
    """Topics of CURRENT_VERSION on a disk that was tiered to S3, and is to be lost."""
    client_of(settings_for(endpoint)).create_bucket(Bucket="restored")
    remote = ("s3://restored/tiered", "--endpoint-url", endpoint, "--path-style")
    return write_and_tier(tmp_path_factory.mktemp("lost") / "disks", remote)


@pytest.fixture
def copy_of(tmp_path: Path) -> CopyDisks:
    """Copies shared disks into the test's own folder, `disks`."""
    return lambda disks: disks.copy_to(tmp_path / "disks")


@pytest.fixture
def disks_of(tmp_path: Path, request: pytest.FixtureRequest, copy_of: CopyDisks) -> Callable[[str], Disks]:
    """Lays a topic with ten closed segments, that a release wrote, into the test's own folder, `disks`."""

    def laid(version: str) -> Disks:
        if version == CURRENT_VERSION:
            return copy_of(request.getfixturevalue("current_disks"))
        return write_current_log(tmp_path / "disks", version=version)

    return laid
