"""Find partitions that a KRaft broker set aside: folders named `<topic>-<n>.<32 hex>-stray`.

A broker that starts renames a replica that the cluster does not assign to it under the topic id in its
partition.metadata, one without an id included, and begins an empty one in its place if the partition is its own
(LogManager.isStrayKraftReplica, since Kafka 3.7). No client gets an error, and no broker ever deletes the folder.
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
            size = _bytes_of_logs(log_dir.filesystem, path) if other.state == _STATE else 0
            if size:
                name = other.name.rpartition(".")[0]
                message = f"{human_bytes(size)} of {name} that no broker reads: a KRaft broker set it aside, since "
                message += f"its topic id was not the cluster's; {_live(name, log_dirs)}"
                yield each, Finding(FindingKind.STRAY_PARTITION, path, -1, message)


def _live(name: str, log_dirs: Sequence[NamedLogDir]) -> str:
    """Describe the live partition of that name."""
    homes = [each.log_dir for each in log_dirs if name in each.log_dir.folders]
    if not homes:
        return f"{name} is not here: if its topic was deleted, or another broker holds it, delete the folder"
    if not any(_bytes_of_logs(each.filesystem, f"{each.path}/{name}") for each in homes):
        return f"{name} is empty here: if no other replica has these records, they are in this folder alone"
    return f"{name} has other records here"


def _bytes_of_logs(filesystem: FileSystem, path: str) -> int:
    try:
        return sum(each.size for each in filesystem.list_folder(path) if each.name.endswith(".log"))
    except OSError:
        return 0
