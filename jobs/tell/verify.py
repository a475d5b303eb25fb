"""What `verify` shows: a row a file."""

from __future__ import annotations

from collections.abc import Iterable

from tiersnap.jobs.command_line.output import Output
from tiersnap.snapshot.gate.verify import Verification, VerifiedSnapshot
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.units import count_of

_COLUMNS = ("partition", "offset", "verdict", "reason")


def show(
    output: Output,
    verification: Verification,
    snapshots: Iterable[tuple[NamedLogDir, Partition, VerifiedSnapshot]],
) -> None:
    """The result; `snapshots` are those of `verification`, compared while they are shown."""
    rows = ({"log_dir": each.uri, **_row(partition.name, found)} for each, partition, found in snapshots)
    where = ("log_dir",) if len(verification.log_dirs) > 1 else ()
    output.rows("verify", rows, columns=(*where, *_COLUMNS), findings=verification.findings)
    output.talk(
        f"{verification.right} of {count_of(verification.counts.total(), 'snapshot agrees', 'snapshots agree')} with "
        "the log"
    )


def _row(partition: str, found: VerifiedSnapshot) -> dict[str, object]:
    comparison = found.comparison
    return {
        "partition": partition,
        "offset": found.offset,
        "verdict": found.verdict,
        "reason": found.reason,
        "lacking": comparison.lacking,
        "differing": comparison.differing,
        "forgotten": comparison.forgotten,
        "unexplained": comparison.unexplained,
        "extending": comparison.extending,
        "harmful_until": comparison.harmful_until,
    }
