"""The run that a report describes."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.masking import masked_uri

# user:password@ in a URI. Reports must not contain it, because users send reports to each other.
USER_INFO = r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@"
_USER_INFO = re.compile(USER_INFO)
Size = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


def new_run_id() -> str:
    """Return a new run id. Run ids sort by start time."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ-") + uuid.uuid4().hex[:6]


@dataclass(frozen=True, kw_only=True)
class RunCounts:
    """The work of one run, in numbers.

    Attributes:
        bytes_decoded: bytes of decoded segment files.
        snapshots_mended: written snapshots that replaced a damaged object.
        bytes_uploaded: bytes of uploaded segment files, without their indexes.
        segments_published: segments whose COPY_SEGMENT_FINISHED records were written.
        delta_commits: commits to all Delta tables.
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
    """The bytes of blocked segments after a run. `at` is the time of the run, epoch ms."""

    at: int
    bytes: Size


@dataclass(frozen=True)
class Disk:
    """A file system with log directories, in bytes.

    Attributes:
        free: bytes that users other than root may still write.
        log_dirs: log directories of the report on this file system.
    """

    mount: str
    total: Size
    free: Size
    log_dirs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run in the index of runs.

    Attributes:
        finished_at: end of the run, epoch ms.
        source: values of --source, as one text.
        remote: value of --remote; "" if the run tiers nothing.
        version: version of tiersnap.
        applied: False if the run only planned and wrote nothing to remote storage.
    """

    run_id: str
    finished_at: int
    source: str
    remote: str
    version: str
    applied: bool


@dataclass(frozen=True, kw_only=True)
class RunInfo(RunRecord, RunCounts):
    """A run with its settings, times and counts.

    Attributes:
        started_at: start of the run, epoch ms.
        judged_at: time of the verdicts, epoch ms; None if it is `started_at`. See `now`.
        sources: values of --source one by one, for commands; empty if `source` is the only one.
        collected: path of the log directory on its host, by collected folder.
        warehouse: value of --warehouse; "" without tables.
        ready_elsewhere: numbers of READY segments in collected folders, by log directory. The run cannot upload them.
        disks: file systems of the log directories that the run could examine.
        options: words of this run's options, by name of a command that accepts them.
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
        """Return the time of the verdicts, epoch ms."""
        return self.started_at if self.judged_at is None else self.judged_at

    def without_secrets(self) -> RunInfo:
        """Return the run without user information and query values in its URIs."""
        source, remote, warehouse = map(without_user, (self.source, self.remote, self.warehouse))
        elsewhere = {without_user(place): count for place, count in self.ready_elsewhere.items()}
        return replace(
            self,
            source=source,
            remote=remote,
            warehouse=warehouse,
            ready_elsewhere=elsewhere,
            sources=tuple(map(without_user, self.sources)),
            collected={without_user(uri): path for uri, path in self.collected.items()},
        )


def without_user(uri: str) -> str:
    """Return `s3://bucket/x` for `s3://key:secret@bucket/x`, with a masked query. Other texts are not changed."""
    return masked_uri(_USER_INFO.sub(r"\1", uri))
