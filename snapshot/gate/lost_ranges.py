"""The error about offsets that remote storage lost and that no local file contains."""

from __future__ import annotations

from collections.abc import Sequence

from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.gate.next_steps import VERIFY_LOCATION, VERIFY_METADATA
from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.gate.step_template import Hole
from tiersnap.snapshot.replay.remote_listing import LostRange
from tiersnap.snapshot.units import count_of

_MOST_NAMED = 5


def in_no_segment(offsets: str) -> str:
    """Return the message about lost offsets. `offsets` is their ranges as text."""
    return f"no complete remote segment of this log has the offsets {offsets}"


def lost_error(name: str, lost: Sequence[LostRange], location: Sequence[str], log_dir: str = "") -> CorruptDataError:
    """Return the error about the lost offsets of a partition.

    Args:
        name: name of the partition.
        location: URI and options of the remote location, as on a command line.
        log_dir: the log directory of the partition; "" if a command cannot read it.
    """
    ranges = [f"{each.start_offset} to {each.end_offset - 1}" for each in lost[:_MOST_NAMED]]
    if len(lost) > _MOST_NAMED:
        ranges.append(count_of(len(lost) - _MOST_NAMED, "more range"))
    values = {Hole.REMOTE: tuple(location), Hole.LOG_DIRS: (log_dir,) if log_dir else ()}
    step = VERIFY_METADATA if log_dir else VERIFY_LOCATION
    return CorruptDataError(f"{name}: {in_no_segment(', '.join(ranges))}", hint=Place(values=values).text(step))
