"""A context that caches DataFrames and drops them at its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

Keep = Callable[[DataFrame], DataFrame]


@contextmanager
def kept() -> Iterator[Keep]:
    """Yield a function that caches a DataFrame until the context closes.

    Spark reads the rows of a DataFrame from the session's cache if a cached DataFrame has an equal plan. If a failed
    run left DataFrames in the cache, the next run in this session would read the failed run's rows.
    """
    frames: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        try:
            frames.append(rows.persist())
        except PySparkException:
            # A serverless session does not support persist(); Spark then computes the rows at each use.
            _log.debug("the session caches nothing", exc_info=True)
        return rows

    try:
        yield keep
    finally:
        for rows in reversed(frames):
            try:
                rows.unpersist()
            except Exception:
                # The session ended, and so did its cache. Do not hide the exception of the block itself.
                _log.debug("a cached DataFrame could not be dropped", exc_info=True)
