"""Settings that a run gives a session, and gives back when it ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_TASKS = "spark.sql.shuffle.partitions"
# Each task of a shuffle builds its projections anew, which costs more than the keys of so many folders.
_FOLDERS_PER_TASK = 64
_FEW_FOLDERS = 50
_START_SOON = {
    # A run of 37 segments with nothing to do, on two cores (tests/perf/idle.py): 31 CPU s cold, 7.7 warm and 21 jobs;
    # with adaptive execution 38, 10.6 and 41 jobs. More folders keep it: their joins are worth choosing anew.
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Each broadcast is a job of its own: with them a run with nothing to do has 22, without them 15.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@contextmanager
def sized_for(spark: SparkSession, folders: int) -> Iterator[int]:
    """Plan for that many partition folders, whatever the session's defaults are; give the tasks that it would make.

    Tasks that read segments or send bytes may be as many as the session makes; what is only compared and counted needs
    few.
    """
    most = shuffle_tasks(spark)
    settings = {_TASKS: str(max(1, min(most, -(-folders // _FOLDERS_PER_TASK))))}
    with with_settings(spark, settings | (_START_SOON if folders <= _FEW_FOLDERS else {})):
        yield most


def shuffle_tasks(spark: SparkSession) -> int:
    """Tasks that a shuffle has in this session; if it decides by itself (`auto`), Spark's default."""
    said = spark.conf.get(_TASKS) or ""
    return int(said) if said.isdecimal() else 200


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what the session lets be set, and set it back in the end."""
    before: dict[str, str | None] = {}
    for name, value in settings.items():
        try:
            before[name] = spark.conf.get(name, None)
            spark.conf.set(name, value)
        except PySparkException:
            # A serverless session fixes most of them.
            before.pop(name, None)
            _log.debug("the session keeps its %s", name)
    try:
        yield
    finally:
        for name, kept in before.items():
            try:
                spark.conf.unset(name) if kept is None else spark.conf.set(name, kept)
            except Exception:
                # The session is gone. What the block itself raised says more.
                _log.debug("%s could not be set back", name, exc_info=True)
