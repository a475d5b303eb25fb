"""The JSON form of a log directory in `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.jobs.cli.sentences import ByName

if TYPE_CHECKING:
    from tiersnap.snapshot.host.summary import Examined, Host


@dataclass(frozen=True, slots=True)
class ExaminedLogDir:
    """A log directory of `doctor`; `bytes` counts `.log` files only."""

    log_dir: str
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    is_clean: bool
    is_running: Annotated[bool | None, Meta(description="null if this user may not see which process holds the lock")]
    pid: int | None
    version: str | None
    mount: str
    disk_bytes: int
    free_bytes: int
    bytes_per_day: Annotated[int, Meta(description="bytes that the broker writes per day at its present rate")]
    full_in_ms: Annotated[
        int | None, Meta(description="time until the disk is full at the present rate; null if no broker writes")
    ]
    partitions: int
    segments: int
    bytes: int
    in_remote: Annotated[ByName, Meta(description="number of closed segments in remote storage, by verdict")]
    blocked: ByName
    blocked_bytes: int
    missing_snapshots: int
    lost_indexes: int
    continued: Annotated[int, Meta(description="partitions whose log begins in remote storage")]
    unknown_log_starts: Annotated[list[str], Meta(description="partitions with an unknown log start offset")]

    @classmethod
    def of(cls, host: Host, each: Examined) -> ExaminedLogDir:
        """Return the JSON form of a log directory of a host."""
        meta, holder = each.meta, each.holder
        cluster_id = node_id = directory_id = pid = version = None
        if meta is not None:
            cluster_id, node_id, directory_id = meta.cluster_id, meta.node_id, meta.directory_id
        if holder is not None:
            pid, version = holder.pid, holder.version
        return cls(
            log_dir=each.uri,
            cluster_id=cluster_id,
            node_id=node_id,
            directory_id=directory_id,
            is_clean=each.is_clean,
            is_running=None if each.lock_unknown else holder is not None,
            pid=pid,
            version=version,
            mount=each.disk.mount,
            disk_bytes=each.disk.total,
            free_bytes=each.disk.free,
            bytes_per_day=each.listed.bytes_per_day,
            full_in_ms=host.full_in(each.disk),
            partitions=each.listed.partitions,
            segments=each.listed.segments,
            bytes=each.listed.bytes,
            in_remote={str(verdict): number for verdict, number in each.listed.in_remote.items()},
            blocked={str(verdict): number for verdict, number in each.listed.blocked.items()},
            blocked_bytes=each.listed.blocked_bytes,
            missing_snapshots=each.missing,
            lost_indexes=each.listed.lost_indexes,
            continued=each.listed.log_starts.continued,
            unknown_log_starts=list(each.listed.log_starts.unlocated),
        )
