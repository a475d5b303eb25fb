"""The plan of a check: no more requests and bytes than it says, and little less."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.remote_storage.verify.check_plan import plan_check
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest

pytestmark = pytest.mark.unit

LOGS = Path(__file__).parent.parent / "data/kafka-3.9.1/logs"
DAY = 86_400_000
LAYOUTS = ["aiven", "local-tiered-storage"]


@dataclass(frozen=True)
class CountingStore(DirectoryStore):
    """Keeps how many bytes each request gave."""

    given: list[int] = field(default_factory=list)

    def list(self, *args: Any, **how: Any) -> Iterator[ObjectInfo]:
        self.given.append(0)
        return super().list(*args, **how)

    def head(self, key: str) -> ObjectInfo | None:
        self.given.append(0)
        return super().head(key)

    def get(self, key: str, **how: Any) -> bytes:
        return self._counted(super().get(key, **how))

    def get_range(self, *args: Any) -> bytes:
        return self._counted(super().get_range(*args))

    def _counted(self, data: bytes) -> bytes:
        self.given.append(len(data))
        return data


@pytest.fixture(name="roots", scope="module")
def fixture_roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Closed segments of log directories that a broker left, tiered in each layout."""
    at = tmp_path_factory.mktemp("plan")
    shutil.copytree(LOGS, at / "logs", ignore=shutil.ignore_patterns("__*", "compacted-*"))
    for layout in LAYOUTS:
        for folder in sorted((at / "logs").glob("*-?")):
            tier(folder, DirectoryStore(at / layout), layout=open_layout(layout))
    return {layout: at / layout for layout in LAYOUTS}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("depth", CheckDepth)
@pytest.mark.parametrize("expiration", [None, DAY])
def test_check_needs_no_more_than_its_plan(
    roots: dict[str, Path], layout: str, depth: CheckDepth, expiration: int | None
) -> None:
    store = CountingStore(roots[layout])
    now = max(each.modified for each in store.list()) + DAY
    store.given.clear()
    plan = plan_check(open_location(store, layout), CheckRequest(depth, now, expiration), lambda _: True)
    assert store.given == [0], "one listing"
    store.given.clear()
    for partition in plan.partitions:
        assert list(PartitionCheck(plan.location, partition, plan.request).checks())
    requests, size = len(store.given), sum(store.given)
    assert requests <= plan.most_requests <= requests * 1.3
    assert size <= plan.most_bytes
    assert plan.location.is_local or plan.most_bytes <= size * 1.3, "nobody knows before how long the ends of logs are"
