"""The objects that the stages of one run share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from tiersnap.jobs.pipeline.before_spark import RunInput
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.warehouse import Warehouse
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation, open_location
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.replay.expiry import Scan

_log = logging.getLogger(__name__)

Talk = Callable[[str], None]


@dataclass
class RunContext:
    """One run: its input, its warehouse, and its outcome so far."""

    warehouse: Warehouse
    settings: RunSettings
    given: RunInput
    most_tasks: int  # largest number of tasks that read segments or upload
    talk: Talk  # called with a sentence about each stage
    outcome: RunOutcome = field(default_factory=RunOutcome)

    @property
    def spark(self) -> SparkSession:
        """Return the Spark session."""
        return self.warehouse.spark

    @property
    def number(self) -> int:
        """Return the number of the run; 0 before `count_all` sets it."""
        return self.warehouse.number

    @property
    def store(self) -> ObjectStore:
        """Return the object store of the remote location."""
        return self.given.store

    @cached_property
    def location(self) -> RemoteLocation:
        """Return the remote location."""
        return open_location(self.store, self.settings.layout)

    @cached_property
    def look(self) -> Observe:
        """Return the object with which tasks list remote segments."""
        return Observe(self.location, refuses_plaintext=not self.settings.allow_plaintext)

    @cached_property
    def options_digest(self) -> str:
        """Return the digest of the settings that a replay depends on."""
        return self.settings.replay.digest(place=None if self.settings.no_upload else self.store.uri)

    @property
    def is_bounded(self) -> bool:
        """Return whether the run has a scan window. Segments before the window are not decoded."""
        return self.settings.replay.scan is Scan.WINDOW

    @property
    def collected(self) -> dict[str, str]:
        """Return the printed names of the original log directories, by URI of the collected folder."""
        return self.given.found.collected

    def append(self, table: str, rows: DataFrame) -> None:
        """Commit rows to a table. Spark computes `rows` once."""
        self.warehouse.append(table, rows, run_id=self.settings.run_id)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Record the duration of a stage in the outcome."""
        started = time.monotonic()
        yield
        self.outcome.seconds[stage] = time.monotonic() - started
        _log.info("stage %s took %.1f s", stage, self.outcome.seconds[stage])
