"""What `mend` shows: a row a missing segment, what failed, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence

from tiersnap.jobs.output import Output
from tiersnap.jobs.tell import place_proof
from tiersnap.jobs.tell.failures import tell_failures
from tiersnap.jobs.tell.missing_objects import row_of
from tiersnap.remote_storage.cluster.location_proof import PlaceProof
from tiersnap.remote_storage.cluster.mend import Mending, MendOutcome
from tiersnap.remote_storage.cluster.missing_objects import Missing

COLUMNS = ("topic", "partition", "base_offset", "next_base_offset", "segment_id", "action", "outcome")


def show(output: Output, missing: Missing, done: Sequence[Mending], proof: PlaceProof | None, *, applied: bool) -> None:
    """The result."""
    errors = [each.error for each in done if each.error is not None]
    mended = sum(each.outcome is MendOutcome.MENDED for each in done)
    output.row_dicts(
        "mend",
        [_row(each) for each in done],
        columns=COLUMNS,
        summary={
            "known": missing.known,
            "missing": len(done),
            "mended": mended,
            **place_proof.members_of(output, proof),
        },
        errors=errors,
    )
    place_proof.tell(output, proof)
    output.talk(missing.sentence)
    tell_failures(output, errors, len(errors))
    if done and not applied:
        output.talk("nothing was put back: give --apply")


def _row(each: Mending) -> dict[str, object]:
    return {
        **row_of(each.missing),
        "action": str(each.action),
        "outcome": str(each.outcome),
        "reason": "" if each.error is None else each.error.message,
    }
