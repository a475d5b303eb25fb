"""What `verify` shows: a row a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.unknown_beginnings import lines, with_remote
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.readiness.verify import Verification, VerifiedSnapshot
from tiersnap.snapshot.units import count_of

_COLUMNS = ("partition", "offset", "verdict", "reason")


def show(
    output: Output,
    verification: Verification,
    snapshots: Iterable[tuple[NamedLogDir, Partition, VerifiedSnapshot]],
) -> None:
    """The result; `snapshots` are those of `verification`, compared while they are shown."""
    summary: dict[str, object] = {"not_compared": 0}

    def rows() -> Iterator[dict[str, object]]:
        yield from ({"log_dir": each.uri, **_row(partition.name, found)} for each, partition, found in snapshots)
        summary["not_compared"] = verification.not_compared

    where = ("log_dir",) if len(verification.log_dirs) > 1 else ()
    columns = (*where, *_COLUMNS)
    output.rows("verify", rows(), columns=columns, summary=summary, findings=verification.findings)
    count, compared = verification.not_compared, verification.compared
    if compared or not count:
        agree = count_of(compared, "snapshot agrees", "snapshots agree")
        output.talk(f"{verification.right} of {agree} with the log")
    if count:
        what = f"{count_of(count, 'snapshot is', 'snapshots are')} not compared: their logs begin in remote storage"
        output.talk(f"{what}; next: {with_remote()}")
    for line in lines(verification.beginnings):
        output.warn(line)


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
