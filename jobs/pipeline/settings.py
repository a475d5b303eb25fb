"""The settings of the Spark jobs."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.remote_storage.upload.upload_options import UploadOptions
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.gate.copy_task import LEFT_FOR_MS
from tiersnap.snapshot.log.places import places_of
from tiersnap.snapshot.masking import masked_values
from tiersnap.snapshot.replay.expiry import ReplayOptions
from tiersnap.snapshot.report.run_info import new_run_id


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """The settings of all jobs that read log directories."""

    check_crc: bool = True
    stores: StoreSettings = field(default_factory=StoreSettings)
    run_id: str = field(default_factory=new_run_id)


@dataclass(frozen=True)
class RunSettings(JobSettings, UploadOptions):
    """The settings of `tiersnap run`.

    Raises:
        UsageError: one of `leaders` is not in `sources`, or the expiration would omit producers that brokers keep.
    """

    sources: tuple[str, ...]  # URIs of log directories or collected folders
    remote: str  # URI of the remote location
    warehouse: str  # URI of the folder with the Delta tables
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    layout: str = "aiven"
    topic: str | None = None  # regular expression for complete topic names; None for all topics
    topic_ids: dict[str, str] = field(default_factory=dict)  # by topic name, for brokers before 2.8
    log_starts: dict[str, int] = field(default_factory=dict)  # offsets of --log-start, by TOPIC-PARTITION
    leaders: tuple[str, ...] = ()  # sources with the replica to use, if several sources contain a partition
    # ms since the epoch. In each partition, upload the segments before the first one whose largest timestamp is `until`
    # or later. None uploads all.
    until: int | None = None
    no_upload: bool = False  # with `apply`: write the tables, and nothing to remote storage
    left_for: int | None = LEFT_FOR_MS  # skip a partition for these ms after a broker's upload; None skips none
    now: int = field(default_factory=lambda: int(time.time() * 1000))  # ms since the epoch; a run reads no other clock
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # see RunInfo

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", places_of(self.sources))
        object.__setattr__(self, "leaders", places_of(self.leaders))
        self.replay.expiry(self.now).checked(self.replay.producer_expiration)
        for leader in self.leaders:
            if leader not in self.sources:
                raise UsageError(f"--leader {leader} is not one of the sources", hint=shlex.join(["--source", leader]))

    @property
    def uploads(self) -> bool:
        """Return whether the run writes to remote storage."""
        return self.apply and not self.no_upload

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the URIs that the run writes to."""
        return (self.remote,) * self.uploads + (self.warehouse,) * self.apply

    @property
    def topics(self) -> re.Pattern[str] | None:
        """Return the compiled regular expression of `topic`; None for all topics."""
        return None if self.topic is None else re.compile(self.topic)

    def as_dict(self) -> dict[str, object]:
        """Return the settings as plain data for the table `runs`. URIs lose their passwords and query strings."""
        return {name: masked_values(value) for name, value in asdict(self).items()}
