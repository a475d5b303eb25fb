"""What `unblock` shows: a row a stuck partition, what failed, and what a person must do."""

from __future__ import annotations

from tiersnap.jobs.command_line.output import Output
from tiersnap.jobs.tell.failures import tell_failures
from tiersnap.remote_storage.cluster.unblock import Unblocked
from tiersnap.snapshot.units import count_of

COLUMNS = ("topic", "partition", "remote_ends_at", "attempts", "tier", "publish", "outcome", "reason")


def show(output: Output, done: Unblocked, *, run_id: str, applied: bool) -> None:
    """The result."""
    errors = (*done.tiered.errors, *done.refusals)
    if not done.freeings:
        output.rows("unblock", [], columns=COLUMNS, errors=errors)
        tell_failures(output, errors, len(errors))
        output.talk(f"none of {count_of(done.candidates, 'tiered partition')} is stuck")
        return
    summary = {"run_id": run_id, "segments_tiered": len(done.tiered.copied)}
    rows = [each.as_row() for each in done.freeings]
    output.rows("unblock", rows, columns=COLUMNS, summary=summary, findings=done.tiered.findings, errors=errors)
    tell_failures(output, errors, len(errors))
    for hint in sorted({each.hint for each in done.freeings if each.hint}):
        output.warn(hint)
    if not applied:
        output.talk("nothing was tiered, published or set: give --apply")
