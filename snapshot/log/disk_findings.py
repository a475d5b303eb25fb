"""Findings about log directories themselves, before any partition is listed; they are the same in all commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.log_dir import LogDir, read_properties
from tiersnap.snapshot.log.selection import NamedLogDir, Selection, folders_of

_WITH_BOTH = "no broker starts with both"


class PartitionTwiceError(CorruptDataError):
    """Raised when two log directories of a broker hold the same partition."""


def findings_of(log_dirs: Sequence[NamedLogDir]) -> Iterator[Finding]:
    """Yield the findings about the directories."""
    for _, finding in named_findings(log_dirs):
        yield finding


def named_findings(log_dirs: Sequence[NamedLogDir]) -> Iterator[tuple[NamedLogDir, Finding]]:
    """Yield the findings about each directory, and about several together."""
    for each in log_dirs:
        for finding in (*each.log_dir.findings, *_foreign(each.log_dir)):
            yield each, finding
    for folder, first, second in twice(log_dirs):
        if not _are_of_two_brokers(first.log_dir, second.log_dir):
            there = f"{first.log_dir.path}/{folder}"
            told = f"{there} is the same partition, and {_WITH_BOTH}: delete the one that is behind"
            yield second, Finding(FindingKind.BAD_FILE_NAME, f"{second.log_dir.path}/{folder}", -1, told)


def twice(
    log_dirs: Sequence[NamedLogDir], selection: Selection | None = None
) -> Iterator[tuple[str, NamedLogDir, NamedLogDir]]:
    """The folder of each selected partition that is in two of the directories, and the two."""
    seen: dict[str, NamedLogDir] = {}
    for each in log_dirs:
        for folder in folders_of(each.log_dir, selection or Selection()):
            if (first := seen.setdefault(folder, each)) is not each:
                yield folder, first, each


def refuse_twice(log_dirs: Sequence[NamedLogDir]) -> None:
    """Refuse a partition that is in two of the directories.

    Raises:
        PartitionTwiceError: they are of one broker, which starts with no such disks.
        UsageError: they are of two brokers, and replicas are nobody's to choose from.
    """
    for folder, first, second in twice(log_dirs):
        where = f"{folder} is in two of the log directories"
        if _are_of_two_brokers(first.log_dir, second.log_dir):
            raise UsageError(f"{where}, which are of two brokers", hint="name the directories of one broker")
        raise PartitionTwiceError(
            f"{where}: {_WITH_BOTH}", hint="delete the one that is behind; tiersnap doctor LOGDIR... names them"
        )


def _foreign(log_dir: LogDir) -> Iterator[Finding]:
    """Folders that keep a broker from starting (UnifiedLog.parseTopicPartitionName)."""
    for other in log_dir.others:
        if other.state == "unknown":
            is_ours = other.name.startswith("tiersnap-restore.")
            todo = "run that restore again, or delete it" if is_ours else "move it away"
            told = f"no broker starts while a folder of this name is here: {todo}"
            yield Finding(FindingKind.BAD_FILE_NAME, f"{log_dir.path}/{other.name}", -1, told)


def _are_of_two_brokers(first: LogDir, second: LogDir) -> bool:
    """Return whether both name a broker, and the brokers differ."""
    known = [read_properties(each.filesystem, each.path) for each in (first, second)]
    brokers = [(each.cluster_id, each.node_id) for each in known if each is not None]
    return len(brokers) == len(known) and len(set(brokers)) > 1
