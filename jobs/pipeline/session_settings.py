"""Session settings that a run changes, and restores at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_TASKS = "spark.sql.shuffle.partitions"
# Each shuffle task compiles its projections again. That costs more than processing the keys of this many folders.
_FOLDERS_PER_TASK = 64
_FEW_FOLDERS = 50
_START_SOON = {
    # A run of 37 segments with nothing to do on two cores (tests/perf/idle.py) takes 31 CPU s cold, 7.7 warm, 21 jobs.
    # With adaptive execution it takes 38, 10.6 and 41 jobs. Runs with more folders gain from adaptive joins.
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Each broadcast is a separate job: a run with nothing to do has 22 jobs with broadcasts, and 15 without.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@contextmanager
def sized_for(spark: SparkSession, folders: int) -> Iterator[int]:
    """Fit the session's number of shuffle tasks to the number of partition folders, and restore the setting afterwards.

    Yield the number of tasks that the session had before, for the stages that read segments or upload. Joins and
    counts need fewer tasks than those stages.
    """
    most = shuffle_tasks(spark)
    settings = {_TASKS: str(max(1, min(most, -(-folders // _FOLDERS_PER_TASK))))}
    if folders <= _FEW_FOLDERS:
        settings |= _START_SOON
    with with_settings(spark, settings):
        yield most


def shuffle_tasks(spark: SparkSession) -> int:
    """Return the session's number of shuffle tasks; Spark's default 200 if the setting is `auto`."""
    said = spark.conf.get(_TASKS) or ""
    return int(said) if said.isdecimal() else 200


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session, and restore them afterwards. Settings that the session rejects are skipped."""
    before: dict[str, str | None] = {}
    for name, value in settings.items():
        try:
            before[name] = spark.conf.get(name, None)
            spark.conf.set(name, value)
        except PySparkException:
            # A serverless session rejects most settings.
            before.pop(name, None)
            _log.debug("the session keeps its %s", name)
    try:
        yield
    finally:
        for name, kept in before.items():
            try:
                spark.conf.unset(name) if kept is None else spark.conf.set(name, kept)
            except Exception:
                # The session ended. Do not hide the exception of the block itself.
                _log.debug("%s could not be restored", name, exc_info=True)
