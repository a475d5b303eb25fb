"""The settings of one run."""

from __future__ import annotations

import re
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
    """Settings of a run; all but the first three have defaults. UsageError for a leader that is no source.

    UsageError also for an expiration by which what is written lacks producers that brokers keep.
    """

    sources: tuple[str, ...]  # as `places_of` names them, one replica of a partition each
    remote: str  # URI
    warehouse: str  # URI of the folder with the Delta tables
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    layout: str = "aiven"
    topic: str | None = None  # a regular expression for whole topic names; None for all
    topic_ids: dict[str, str] = field(default_factory=dict)  # by topic, for brokers before 2.8
    log_starts: dict[str, int] = field(default_factory=dict)  # by <topic>-<partition>, as the user states them
    leaders: tuple[str, ...] = ()  # of two replicas of a partition only those in these log directories are looked at
    # ms, exclusive: segments of a partition below the first whose largest timestamp is not older; None for all
    until: int | None = None
    no_upload: bool = False  # with `apply`: write the tables, and nothing to remote storage
    left_for: int | None = LEFT_FOR_MS  # ms after a broker's upload in which segments are left to it; None leaves none
    now: int = field(default_factory=lambda: int(time.time() * 1000))  # ms; the one time that a run knows
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # see RunInfo

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", places_of(self.sources))
        object.__setattr__(self, "leaders", places_of(self.leaders))
        self.replay.expiry(self.now).checked(self.replay.producer_expiration)
        for leader in self.leaders:
            if leader not in self.sources:
                raise UsageError(f"--leader {leader} is none of the sources", hint="give it with --source, too")

    @property
    def uploads(self) -> bool:
        """Return whether the run writes to remote storage."""
        return self.apply and not self.no_upload

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the URIs to which the run writes."""
        return (self.remote,) * self.uploads + (self.warehouse,) * self.apply

    @property
    def topics(self) -> re.Pattern[str] | None:
        """`topic`, compiled."""
        return None if self.topic is None else re.compile(self.topic)

    def as_dict(self) -> dict[str, object]:
        """Return the settings as plain data for the table of runs, without passwords and queries of URIs."""
        return {name: masked_values(value) for name, value in asdict(self).items()}
