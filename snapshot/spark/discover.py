"""Names of the partition folders below log directories: all that the driver lists itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tiersnap.snapshot.errors import NotALogDirError
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import open_log_dir, split_folder_name
from tiersnap.snapshot.log.selection import matches_topic


def discover(sources: Iterable[str], topic: re.Pattern[str] | None) -> tuple[list[tuple[str, str]], list[Finding]]:
    """(log directory, folder name) of the partitions that `topic` selects, and what is wrong with the directories.

    Raises:
        SourceNotFoundError, NotALogDirError: a source is none, or no topic is selected.
    """
    found: list[tuple[str, str]] = []
    findings: list[Finding] = []
    names = list(sources)
    for source in names:
        log_dir = open_log_dir(source)
        findings.extend(log_dir.findings)
        for folder in log_dir.folders:
            name = split_folder_name(folder)
            if name is not None and matches_topic(name[0], topic):
                found.append((source, folder))
    if not found:
        raise NotALogDirError(
            f"{', '.join(names)}: no partition matches --topic",
            hint="--topic is a regular expression for the whole topic name, as in --topic 'orders.*'",
        )
    return found, findings
