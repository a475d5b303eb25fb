"""What `tier` and `run` say of copies that other attempts had made, and that count since."""

from __future__ import annotations

from tiersnap.jobs.output import Output
from tiersnap.snapshot.units import count_of


def tell_finished_copies(output: Output, count: int) -> None:
    """Say how many there are; nothing of none."""
    if count:
        are = count_of(count, "copy", "copies") + (" is" if count == 1 else " are")
        output.talk(f"{are} finished now that other attempts had made: nothing was sent for that")
