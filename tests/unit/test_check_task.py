"""A Spark task's part of `verify --warehouse`: partitions as rows in, rows of `remote_checks` out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from tests.reference.flaky_store import Fault, FlakyStore
from tests.reference.poisoned_tier import TOPIC_ID, poisoned_tier
from tests.reference.tiered import aiven
from tiersnap.jobs.cli.option_types import parse_time
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.verify.check_task import TO_CHECK, CheckTask
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.gate.remote_check import CHECKS, CheckDepth, CheckRequest
from tiersnap.snapshot.report.remote_checks import remote_checked

pytestmark = pytest.mark.unit
ASKED = CheckRequest(CheckDepth.SNAPSHOTS, parse_time("2026-11-21T12:45:00Z"), 86_400_000)


class LosesIndexes(DirectoryStore):
    """The indexes of a segment are deleted between the listing and the read."""

    def get(self, key: str, *, limit: int | None = None) -> bytes:
        if "0222-" in key and key.endswith(".indexes"):
            (Path(self.root) / key).unlink(missing_ok=True)
        return super().get(key, limit=limit)


def checked(at: Path, schedule: Mapping[int, Fault] = MappingProxyType({}), **told: Any) -> list[dict[str, Any]]:
    return checked_in(FlakyStore(DirectoryStore(at), schedule), **told)


def checked_in(store: ObjectStore, **told: Any) -> list[dict[str, Any]]:
    row = {"topic": "churn", "topic_id": TOPIC_ID, "partition": 0, "known": None, "compared": None} | told
    task = CheckTask(aiven(store), ASKED)
    batches = task([pa.RecordBatch.from_pylist([row], schema=TO_CHECK)])
    return [each for batch in batches for each in batch.to_pylist()]


def test_task_skips_what_the_table_tells_and_looks_again_at_what_is_not_sound(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    first = checked(at.remote)
    assert [row["verdict"] for row in first] == ["NOT_COMPARED"] * 5 + ["SUSPECT"] * 2
    again = checked(at.remote, known=first)
    assert [(row["base_offset"], row["verdict"]) for row in again] == [(574, "SUSPECT"), (685, "SUSPECT")]


def test_a_segment_whose_object_is_deleted_during_the_check_is_missing(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=None, local_from=7)
    (row,) = (each for each in checked_in(LosesIndexes(at.remote)) if each["base_offset"] == 222)
    assert (row["verdict"], row["reason"].endswith("the object does not exist")) == ("MISSING", True)


@pytest.mark.parametrize("told", [{"remote": "file:///elsewhere/"}, {"producer_expiration": 1}], ids=str)
def test_task_skips_nothing_by_a_check_of_another_place_or_less_strict(told: dict[str, Any], tmp_path: Path) -> None:
    """A copy of a bucket has the same segment ids; and what is gone there is not gone here."""
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    first = checked(at.remote)
    gone = first[-1] | {"segment_id": "AAAAAAAAAAAAAAAAAAAAAA"}
    again = checked(at.remote, known=[each | told for each in [*first, gone]])
    assert [row["base_offset"] for row in again if row["verdict"] != "GONE"] == [row["base_offset"] for row in first]
    assert ("GONE" in {row["verdict"] for row in again}) is ("remote" not in told)
    strict = [each | {"producer_expiration": None} for each in first]
    assert len(checked(at.remote, known=strict)) == 2


@pytest.mark.parametrize(
    ("later", "longer", "listed_at"),
    [(0, 0, 2), (1, 0, 7), (1, 1, 2), (2, 1, 7), (-1, -1, 2), (-1, -2, 7), (-1, 0, 2)],
)
def test_task_skips_only_by_checks_that_counted_all_producers_that_count_now(
    tmp_path: Path, later: int, longer: int, listed_at: int
) -> None:
    """As of a later time more producers have expired, and a snapshot may lack them."""
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    changed = {"checked_at": ASKED.now + later, "producer_expiration": 86_400_000 + longer}
    assert len(checked(at.remote, known=[each | changed for each in checked(at.remote)])) == listed_at


def test_task_recognises_snapshots_that_a_run_compared_by_their_bytes(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    compared = [{"offset": offset, "crc": crc32c(data)} for offset, data in at.expected.items()]
    found = checked(at.remote, compared=compared)
    assert [row["compared_with"] for row in found[:5]] == ["WAREHOUSE"] * 5
    assert [row["verdict"] for row in found] == ["MATCHES"] * 5 + ["SUSPECT"] * 2


def test_task_tells_a_partition_that_remote_storage_does_not_show(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    (row,) = failed = checked(at.remote, {1: Fault.FAIL_BEFORE})
    assert (row["verdict"], row["depth"], row["compared_with"], row["checked_at"]) == (
        *("UNVERIFIED", "snapshots", "NOTHING"),
        ASKED.now,
    )
    assert (row["segment_id"], row["is_of_log"], row["listed"], row["bytes"], row["written_at"]) == ("", False, 0, 0, 0)
    (of_failed,) = remote_checked(CHECKS.read_dicts(failed)).values()
    assert (of_failed.segments, of_failed.verified, of_failed.unsound) == (0, 0, 1)
    earlier = checked(at.remote)
    (known,) = remote_checked(CHECKS.read_dicts(earlier)).values()
    for later, unsound in ((-1, 2), (1, 3)):
        (found,) = remote_checked(CHECKS.read_dicts([*earlier, row | {"checked_at": ASKED.now + later}])).values()
        assert (found.segments, found.verified, found.unsound) == (known.segments, known.verified, unsound)
