"""What `unblock` shows: a row a stuck partition, what failed, and what a person must do."""

from __future__ import annotations

from collections.abc import Sequence

from tiersnap.jobs.again import again, host_commands
from tiersnap.jobs.old_options.host import HostRequest
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell import place_proof
from tiersnap.jobs.tell.encryption import tell_unknown_encryption
from tiersnap.jobs.tell.failures import tell_failures
from tiersnap.jobs.tell.mended import tell_mended
from tiersnap.remote_storage.cluster.unblock import Unblocked
from tiersnap.snapshot.tables.listed import Encryption
from tiersnap.snapshot.units import count_of

COLUMNS = ("topic", "partition", "remote_ends_at", "attempts", "tier", "publish", "outcome", "reason")


def show(output: Output, done: Unblocked, log_dirs: Sequence[str], request: HostRequest) -> None:
    """The result; `log_dirs` are those of --source."""
    errors = (*done.tiered.errors, *done.refusals)
    if not done.freeings:
        output.row_dicts("unblock", [], columns=COLUMNS, errors=errors)
        tell_failures(output, errors, len(errors))
        output.talk(f"none of {count_of(done.candidates, 'tiered partition')} is stuck")
        return
    commands = host_commands(log_dirs, request.remote)
    summary = {
        "run_id": request.run_id,
        "segments_tiered": len(done.tiered.copied),
        "snapshots_mended": done.tiered.counts.snapshots_mended,
        **place_proof.members_of(output, done.proof),
    }
    rows = [{**each.as_row(), "hint": commands.of(each.hint)} for each in done.freeings]
    output.row_dicts("unblock", rows, columns=COLUMNS, summary=summary, findings=done.tiered.findings, errors=errors)
    place_proof.tell(output, done.proof)
    tell_failures(output, errors, len(errors))
    tell_mended(output, done.tiered.counts.snapshots_mended)
    for hint in sorted({str(row["hint"]) for row in rows if row["hint"]}):
        output.warn(hint)
    if not request.apply:
        tell_unknown_encryption(output, done.tiered.encryption[Encryption.UNKNOWN])
        output.talk(f"nothing was tiered, published or set; next: {again('--apply')}")
