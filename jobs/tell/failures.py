"""What is said of parts of the work that failed: by `run`, `tier` and `unblock`."""

from __future__ import annotations

from collections.abc import Sequence

from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.units import count_of

MOST_TOLD = 20


def tell_failures(output: Output, errors: Sequence[TiersnapError], count: int) -> None:
    """Say what failed, and once what to do about each kind of it; `errors` are the first of `count`, or all."""
    told = errors[:MOST_TOLD]
    for error in told:
        output.warn(f"failed: {error.message}")
    if count > len(told):
        output.warn(f"… and {count_of(count - len(told), 'failure')} more")
    for hint in dict.fromkeys(error.hint for error in told if error.hint):
        output.warn(f"  {hint}")
