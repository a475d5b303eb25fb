"""Find partitions that a KRaft broker set aside, in folders named `<topic>-<n>.<32 hex>-stray`.

At its start, a KRaft broker compares the topic id in each partition.metadata with the cluster's assignments
(LogManager.isStrayKraftReplica, since Kafka 3.7). If no replica with this id is assigned to the broker, or the folder
has no id, the broker renames the folder. If the partition is assigned to the broker under another id, the broker
creates an empty replica. No client gets an error, and no broker ever deletes the stray folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.units import human_bytes

_STATE = "stray"


def stray_partitions(log_dirs: Sequence[NamedLogDir]) -> Iterator[tuple[NamedLogDir, Finding]]:
    """Yield a finding for each stray folder that contains records, with its log directory."""
    for each in log_dirs:
        log_dir = each.log_dir
        for other in log_dir.others:
            path = f"{log_dir.path}/{other.name}"
            if other.state == _STATE and (size := _bytes_of_logs(log_dir.filesystem, path)):
                name = other.name.rpartition(".")[0]
                message = (
                    f"brokers do not read these {human_bytes(size)} of {name}: a KRaft broker renamed the folder, "
                )
                message += f"because its topic id differs from the topic id in the cluster; {_live(name, log_dirs)}"
                yield each, Finding(FindingKind.STRAY_PARTITION, path, -1, message)


def _live(name: str, log_dirs: Sequence[NamedLogDir]) -> str:
    """Return a description of the live partition with this name."""
    homes = [each.log_dir for each in log_dirs if name in each.log_dir.folders]
    if not homes:
        return (
            f"this host has no other folder of {name}: if the topic was deleted, or another broker has the partition, "
            "delete this folder"
        )
    if not any(_bytes_of_logs(each.filesystem, f"{each.path}/{name}") for each in homes):
        return (
            f"the other folder of {name} on this host is empty: if no other replica has these records, only this "
            "folder has them"
        )
    return f"the other folder of {name} on this host has different records"


def _bytes_of_logs(filesystem: FileSystem, path: str) -> int:
    try:
        return sum(each.size for each in filesystem.list_folder(path) if each.name.endswith(".log"))
    except OSError:
        return 0
