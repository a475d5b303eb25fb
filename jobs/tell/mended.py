"""What is said of snapshot objects that were damaged, and are right again."""

from __future__ import annotations

from tiersnap.jobs.output import Output
from tiersnap.snapshot.units import count_of


def tell_mended(output: Output, count: int) -> None:
    """Say how many damaged snapshot objects were computed again and replaced; nothing where none was."""
    if count:
        output.warn(f"computed again from the log and replaced: {count_of(count, 'damaged snapshot object')}")
