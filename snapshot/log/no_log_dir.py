"""Say why a path is no log directory, and which path to name instead."""

from __future__ import annotations

from collections.abc import Collection

_REASONS: dict[type, str] = {FileNotFoundError: "no such directory", NotADirectoryError: "it is no directory"}


def unlisted(error: OSError) -> tuple[str, str]:
    """Return why a directory cannot be listed, and a hint."""
    reason = _REASONS.get(type(error)) or error.strerror or str(error)
    if isinstance(error, PermissionError):
        return reason, "run it as the user that runs the broker"
    return reason, "name one entry of the broker's log.dirs, as server.properties has it"


def without_partitions(folder: str, names: Collection[str]) -> str:
    """A hint for a directory that has no folder named like a partition's.

    Args:
        folder: its own name.
        names: of what is in it.
    """
    if not names:
        return "it is empty: is its disk mounted?"
    if any(name.endswith(".log") for name in names):
        return f"this is one partition: name the folder above it, with --partition {folder}"
    return "a log directory holds folders named <topic>-<partition>; is this its parent?"
