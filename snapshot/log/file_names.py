"""Parse the names of files in a partition's folder, and find wrong names."""

from __future__ import annotations

import re
from pathlib import Path

from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.findings import Finding, FindingKind
from tiersnap.snapshot.log.lock import is_in_use

INDEXES = ("index", "timeindex", "txnindex")
SUFFIXES = ("log", *INDEXES, "snapshot")

_NUMBERED_FILE = re.compile(rf"(?P<number>[0-9]{{20}})\.(?P<suffix>{'|'.join(SUFFIXES)})")
_OTHER_NUMBER = re.compile(r"-?[0-9]+\.(log|snapshot)")
LARGEST_OFFSET = (1 << 63) - 1
_UNFINISHED = (".cleaned", ".swap")


def numbered_name(name: str) -> tuple[str, int] | None:
    """Return (suffix, offset) of `<20 digits>.<suffix>`; None for any other name."""
    match = _NUMBERED_FILE.fullmatch(name)
    if match is None or int(match["number"]) > LARGEST_OFFSET:
        return None
    return match["suffix"], int(match["number"])


def wrong_name(name: str, path: str) -> Finding | None:
    """Return the finding about a file name that a healthy partition does not have; None for other names."""
    if name.endswith((".snapshot", ".log")):
        effect = "; a broker cannot open this partition"
        if _OTHER_NUMBER.fullmatch(name):
            effect = ": no broker wrote a file of this name"
        message = f"the file name is not <20 digits>{name[name.rindex('.') :]}{effect}"
        return Finding(FindingKind.BAD_FILE_NAME, path, -1, message)
    if name.endswith(_UNFINISHED):
        message = (
            "the broker has not finished a compaction: start the broker, which finishes it, then run this command again"
        )
        return Finding(FindingKind.UNFINISHED_SWAP, path, -1, message)
    return None


def is_of_running_cleaner(filesystem: FileSystem, finding: Finding) -> bool:
    """Return whether the finding is about a compaction that a running broker has not finished yet."""
    is_unfinished = finding.finding_kind is FindingKind.UNFINISHED_SWAP
    return is_unfinished and filesystem.is_local and is_in_use(Path(finding.path).parent.parent)
