"""A Spark task's part of `verify --warehouse`: partitions as rows in, rows of `remote_checks` out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.reference.poisoned_tier import TOPIC_ID, poisoned_tier
from tiersnap.jobs.option_types import parse_time
from tiersnap.remote_storage.check.check_task import TO_CHECK, CheckTask
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.readiness.remote_check import CheckDepth, CheckRequest

pytestmark = pytest.mark.unit
ASKED = CheckRequest(CheckDepth.SNAPSHOTS, parse_time("2026-11-21T12:45:00Z"), 86_400_000)


def checked(at: Path, **told: Any) -> list[dict[str, Any]]:
    row = {"topic": "churn", "topic_id": TOPIC_ID, "partition": 0, "known": None, "compared": None} | told
    batches = CheckTask(DirectoryStore(at), False, ASKED)([pa.RecordBatch.from_pylist([row], schema=TO_CHECK)])
    return [each for batch in batches for each in batch.to_pylist()]


def test_task_skips_what_the_table_tells_and_looks_again_at_what_is_not_sound(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    first = checked(at.remote)
    assert [row["verdict"] for row in first] == ["NOT_COMPARED"] * 5 + ["SUSPECT"] * 2
    again = checked(at.remote, known=first)
    assert [(row["base_offset"], row["verdict"]) for row in again] == [(574, "SUSPECT"), (685, "SUSPECT")]


def test_task_recognises_snapshots_that_a_run_compared_by_their_bytes(tmp_path: Path) -> None:
    at = poisoned_tier(tmp_path, "churn-0", rebuilt=5, local_from=7)
    compared = [{"offset": offset, "crc": crc32c(data)} for offset, data in at.expected.items()]
    found = checked(at.remote, compared=compared)
    assert [row["compared_with"] for row in found[:5]] == ["WAREHOUSE"] * 5
    assert [row["verdict"] for row in found] == ["MATCHES"] * 5 + ["SUSPECT"] * 2
