"""What ended attempts left of a partition goes with the next run, also where nothing of it is tiered."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import assert_said, tiersnap
from tests.reference.log_builder import write_partition
from tests.unit.test_leftovers import late_write
from tests.unit.test_whole_but_not_counted import SEGMENTS
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


def test_run_removes_a_late_object_of_a_partition_that_is_tiered(spark: SparkSession, tmp_path: Path) -> None:
    write_partition(tmp_path / "logs", "orders", 0, SEGMENTS, high_watermark=35, indexes=True)
    store = DirectoryStore(tmp_path / "remote")
    key = late_write(store, tmp_path / "logs", suffix=".log")
    words = ["run", "--source", tmp_path / "logs", "--remote", store.root, "--warehouse", tmp_path / "tables"]
    assert_said(tiersnap(*words, "--expiration", "none"), 0)
    assert store.head(key) is not None, "a plan writes nothing"
    assert_said(
        tiersnap(*words, "--expiration", "none", "--apply"),
        0,
        "removed 1 object of copy attempts that had ended unfinished",
    )
    assert store.head(key) is None
