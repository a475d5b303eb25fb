"""The run that made a report."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.masking import masked_uri

# user:password@ in a URI, which must not be in pages that people send to each other.
USER_INFO = r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@"
_USER_INFO = re.compile(USER_INFO)
Size = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


def new_run_id() -> str:
    """Return a new run id; ids sort by the start of their runs."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ-") + uuid.uuid4().hex[:6]


@dataclass(frozen=True, kw_only=True)
class RunCounts:
    """The work of one run, counted.

    Attributes:
        bytes_decoded: of segment files.
        snapshots_mended: written snapshots that replaced a damaged object.
        bytes_uploaded: of segment files, without their indexes.
        segments_published: segments whose records were written.
        delta_commits: to all tables.
    """

    segments_decoded: Size = 0
    bytes_decoded: Size = 0
    snapshots_written: Size = 0
    snapshots_mended: Size = 0
    segments_uploaded: Size = 0
    bytes_uploaded: Size = 0
    segments_published: Size = 0
    delta_commits: Size = 0


@dataclass(frozen=True)
class WaitingAt:
    """The bytes of the segments that waited after a run; `at` is the time of the run, epoch ms."""

    at: int
    bytes: Size


@dataclass(frozen=True)
class Disk:
    """A file system below log directories; bytes.

    Attributes:
        free: bytes that a user other than root may write.
        log_dirs: log directories of the report on it.
    """

    mount: str
    total: Size
    free: Size
    log_dirs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One run, as the index of runs names it.

    Attributes:
        finished_at: epoch ms, by the clock.
        source: the log directories, as given to --source, for people.
        remote: as given to --remote, "" if the run tiers nothing.
        version: of tiersnap.
        applied: False if the run only planned, and wrote nothing to remote storage.
    """

    run_id: str
    finished_at: int
    source: str
    remote: str
    version: str
    applied: bool


@dataclass(frozen=True, kw_only=True)
class RunInfo(RunRecord, RunCounts):
    """One run: its settings, its times and its counts.

    Attributes:
        started_at: epoch ms, by the clock.
        judged_at: epoch ms at which the verdicts hold, None if that is `started_at`; see `now`.
        sources: `source` one by one, for commands; empty if there is only one.
        collected: by collected folder, the path of the log directory on its host.
        warehouse: as given to --warehouse, "" without tables.
        ready_elsewhere: READY segments of collected folders, which the run cannot upload, by the log directory of their
            host.
        disks: the file systems of the log directories that the run could examine.
        options: by name of a command, the options of this run that the command accepts, as words.
    """

    started_at: int
    warehouse: str
    ready_elsewhere: Mapping[str, Size] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    collected: Mapping[str, str] = field(default_factory=dict)
    disks: tuple[Disk, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    judged_at: int | None = None

    @property
    def now(self) -> int:
        """Return the epoch ms at which the verdicts hold."""
        return self.started_at if self.judged_at is None else self.judged_at

    def without_secrets(self) -> RunInfo:
        """Return the run without user information and queries in its URIs."""
        source, remote, warehouse = (without_user(uri) for uri in (self.source, self.remote, self.warehouse))
        elsewhere = {without_user(place): count for place, count in self.ready_elsewhere.items()}
        return replace(
            self,
            source=source,
            remote=remote,
            warehouse=warehouse,
            ready_elsewhere=elsewhere,
            sources=tuple(without_user(uri) for uri in self.sources),
            collected={without_user(uri): path for uri, path in self.collected.items()},
        )


def without_user(uri: str) -> str:
    """Return `s3://bucket/x` of `s3://key:secret@bucket/x`, with a query masked; anything else as it is."""
    return masked_uri(_USER_INFO.sub(r"\1", uri))
