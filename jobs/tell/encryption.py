"""What a plan says of a place of which nobody knows whether the plugin encrypts there."""

from __future__ import annotations

from tiersnap.jobs.output import Output
from tiersnap.snapshot.units import count_of


def tell_unknown_encryption(output: Output, partitions: int) -> None:
    """Say of how many partitions no manifest tells it; nothing where there is none."""
    if partitions:
        output.talk(
            f"encryption: unknown of {count_of(partitions, 'partition')}: no manifest of theirs, of their topics or of "
            "the first ones of remote storage is there; what is uploaded is plain text"
        )
