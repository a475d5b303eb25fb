"""DataFrames that a session caches while a block runs."""

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
    """Give a function that caches a DataFrame until the block ends.

    A cache is of the session, and answers a later DataFrame with the same plan: what a failed run left in it would be
    what the next one finds.
    """
    frames: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        try:
            frames.append(rows.persist())
        except PySparkException:
            # A serverless session has no cache: the rows are computed each time.
            _log.debug("the session caches nothing", exc_info=True)
        return rows

    try:
        yield keep
    finally:
        for rows in reversed(frames):
            try:
                rows.unpersist()
            except Exception:
                # The session is gone, and its cache with it. What the block itself raised says more.
                _log.debug("a cached DataFrame could not be dropped", exc_info=True)
