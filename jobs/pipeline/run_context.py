"""The things that the stages of one run share."""

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
    most_tasks: int  # of those that read segments or send bytes
    talk: Talk  # hears of each stage
    outcome: RunOutcome = field(default_factory=RunOutcome)

    @property
    def spark(self) -> SparkSession:
        """Return the session."""
        return self.warehouse.spark

    @property
    def number(self) -> int:
        """Return the number of the run, 0 before it is known."""
        return self.warehouse.number

    @property
    def store(self) -> ObjectStore:
        """Return remote storage."""
        return self.given.store

    @cached_property
    def location(self) -> RemoteLocation:
        """Return the remote location."""
        return open_location(self.store, self.settings.layout)

    @cached_property
    def look(self) -> Observe:
        """Return the reader of remote storage that tasks get."""
        return Observe(self.location, refuses_plaintext=not self.settings.allow_plaintext)

    @cached_property
    def options_digest(self) -> str:
        """Return the digest of the settings that a replay depends on."""
        return self.settings.replay.digest(place=None if self.settings.no_upload else self.store.uri)

    @property
    def is_bounded(self) -> bool:
        """Return whether segments before a scan window are not decoded."""
        return self.settings.replay.scan is Scan.WINDOW

    @property
    def collected(self) -> dict[str, str]:
        """Return the sources that were collected, each with its log directory for people."""
        return self.given.found.collected

    def append(self, table: str, rows: DataFrame) -> None:
        """Commit rows to a table; the only action on `rows`."""
        self.warehouse.append(table, rows, run_id=self.settings.run_id)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note the seconds that a stage takes."""
        started = time.monotonic()
        yield
        self.outcome.seconds[stage] = time.monotonic() - started
        _log.info("stage %s took %.1f s", stage, self.outcome.seconds[stage])
