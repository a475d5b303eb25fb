"""The file systems below the log directories that this host can look at, for reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tiersnap.snapshot.host.disk import disk_of
from tiersnap.snapshot.report.run_info import Disk


def disks_below(log_dirs: Iterable[str]) -> tuple[Disk, ...]:
    """Each file system once, with the log directories on it; what is not a folder of this host is left out."""
    found = {}
    on_disk: defaultdict[str, list[str]] = defaultdict(list)
    for log_dir in sorted(set(log_dirs)):
        path = _local(log_dir)
        try:
            if path is None or not path.is_dir():
                continue
            disk = disk_of(path)
        except OSError:
            continue
        found[disk.mount] = disk
        on_disk[disk.mount].append(log_dir)
    return tuple(Disk(each.mount, each.total, each.free, tuple(on_disk[mount])) for mount, each in found.items())


def _local(log_dir: str) -> Path | None:
    if log_dir.startswith("file:"):
        return Path(unquote(urlsplit(log_dir).path))
    return None if "://" in log_dir else Path(log_dir)
