"""Names of the partition folders of sources: all that the driver lists itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tiersnap.snapshot.errors import NotALogDirError
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import split_folder_name
from tiersnap.snapshot.log.places import places_of
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.tasks.sources import open_source


@dataclass(frozen=True, slots=True)
class Discovered:
    """The log directories and partitions of the sources.

    Attributes:
        folders: (source, folder name) of the partitions that are selected.
        findings: what is wrong with the sources as a whole.
        collected: of each source that holds decodes only, the log directory where its segments lie, for people.
        collected_log_dirs: the same as a path on that host.
        owners: of each source whose disk it is, where it says so.
    """

    folders: list[tuple[str, str]]
    findings: list[Finding]
    collected: dict[str, str]
    collected_log_dirs: dict[str, str]
    owners: dict[str, MetaProperties]


def discover(sources: Iterable[str], topic: re.Pattern[str] | None, *, may_be_none: bool = False) -> Discovered:
    """Return the partitions of the sources that `topic` selects; a source that is named twice is one.

    A broker's disks may hold no partition yet; but if a topic was asked for, one is there, unless `may_be_none`.

    Raises:
        SourceNotFoundError, NotALogDirError: a source is none, or no topic matches.
        UsageError, CorruptDataError: a collected folder cannot be read.
    """
    found = Discovered([], [], {}, {}, {})
    names = places_of(sources)
    for uri in names:
        source = open_source(uri)
        found.findings.extend(source.findings)
        if source.properties is not None:
            found.owners[uri] = source.properties
        if source.collected_from is not None:
            found.collected[uri] = source.collected_from
        if source.collected_log_dir is not None:
            found.collected_log_dirs[uri] = source.collected_log_dir
        for folder in source.folders:
            name = split_folder_name(folder)
            if name is not None and matches_topic(name[0], topic):
                found.folders.append((uri, folder))
    if topic is not None and not found.folders and not may_be_none:
        raise NotALogDirError(
            f"{', '.join(names)}: no partition matches --topic",
            hint="--topic is a regular expression for the whole topic name, as in --topic 'orders.*'",
        )
    return found
