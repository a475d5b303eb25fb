"""What `repair` shows: a row a snapshot, what was or would be written, and what waits for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tiersnap.jobs.again import again
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.unknown_beginnings import lines, with_remote
from tiersnap.snapshot.host.disk import disk_of
from tiersnap.snapshot.host.full_disk import deleted_bytes, ways_to_free
from tiersnap.snapshot.log.findings import FindingKind
from tiersnap.snapshot.log.log_dir import LOG_START_OFFSETS, Partition
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.repair.log_dirs import HostRepair, is_local
from tiersnap.snapshot.repair.plan import PlannedSnapshot, RepairAction
from tiersnap.snapshot.repair.space import says_space
from tiersnap.snapshot.units import count_of

_COLUMNS = ("partition", "offset", "action", "producers", "provenance", "reason")
# Of rows that need nobody: a count that leaves them out would not add up to the rows.
_LEFT_ALONE = {
    RepairAction.STRAY: "no segment begins at their offsets, and the broker deletes them at its next start",
    RepairAction.NEVER_TIERED: "their topics are compacted or internal, and no broker tiers those",
}


def show(
    output: Output,
    repair: HostRepair,
    plans: Iterable[tuple[NamedLogDir, Partition, Sequence[PlannedSnapshot]]],
    *,
    wrote: bool,
    in_place: bool,
) -> None:
    """The result; `plans` are those of `repair`, carried out while they are shown, `in_place` or elsewhere."""
    where = ("log_dir",) if len(repair.log_dirs) > 1 else ()
    output.row_dicts(
        "repair", _rows(plans), columns=(*where, *_COLUMNS), findings=repair.findings, errors=repair.errors
    )
    for error in repair.errors:
        output.warn(error.message)
        if error.hint:
            output.warn(f"  {error.hint}")
    for each in repair.log_dirs:
        for other in each.log_dir.others:
            output.talk(f"left alone: {other.name} ({other.state})")
    for line in (*_written(repair, wrote=wrote, in_place=in_place), *_waiting(repair), *repair.undone):
        output.talk(line)


def _rows(plans: Iterable[tuple[NamedLogDir, Partition, Sequence[PlannedSnapshot]]]) -> Iterator[dict[str, object]]:
    for each, partition, plan in plans:
        for planned in plan:
            if planned.action is not RepairAction.KEEP:
                yield {"log_dir": each.uri, **_row(partition.name, planned)}


def _row(partition: str, planned: PlannedSnapshot) -> dict[str, object]:
    return {
        "partition": partition,
        "offset": planned.offset,
        "bytes": planned.size,
        "action": planned.action,
        "producers": planned.entry_count,
        "provenance": planned.provenance,
        "found": planned.found,
        "reason": planned.reason,
    }


def _names(repair: HostRepair) -> str:
    """The log directories, for a shell."""
    return shlex.join(each.uri for each in repair.log_dirs)


def _written(repair: HostRepair, *, wrote: bool, in_place: bool) -> Iterator[str]:
    actions, names = repair.actions, _names(repair)
    count, kept = actions[RepairAction.WRITE] + actions[RepairAction.REPLACE], actions[RepairAction.KEEP]
    if wrote and count:
        yield f"{count_of(count, 'snapshot is', 'snapshots are')} in place, {kept} right already"
        if in_place and not repair.undone and not repair.errors:
            yield f"next: start the broker; the same on the hosts of the other replicas, then tiersnap doctor {names}"
    elif count:
        yield f"{count_of(count, 'snapshot')} to write, {kept} right already; nothing was written"
        for each in repair.log_dirs:
            if repair.needed[each.uri] and is_local(each):
                yield from _room(repair.needed[each.uri], Path(each.log_dir.path))
        if not repair.undone:
            yield f"next: stop the broker, then {again('--apply')}"
    elif repair.errors:
        yield f"nothing was written; {count_of(kept, 'snapshot is', 'snapshots are')} right already"
    elif kept or not (repair.beginnings.unknown or actions[RepairAction.NOT_COMPARED]):
        yield f"nothing to write: {count_of(kept, 'snapshot is', 'snapshots are')} right already"
    for each in repair.log_dirs:
        if unwritten := repair.unwritten[each.uri]:
            yield f"{each.uri}: {count_of(unwritten, 'snapshot was', 'snapshots were')} not written for want of room"
            if in_place:
                yield from _room(repair.lacking[each.uri], Path(each.log_dir.path))
                yield f"next: {again()}"


def _room(needed: int, log_dir: Path) -> Iterator[str]:
    """What is needed and free, and where that is too little what frees it."""
    yield says_space(needed, log_dir)
    disk = disk_of(log_dir)
    if needed > disk.writable:
        yield from ways_to_free(disk, deleted_bytes(log_dir))


def _waiting(repair: HostRepair) -> Iterator[str]:
    if wrong := repair.actions[RepairAction.NEEDS_REPLACE]:
        yield f"{count_of(wrong, 'snapshot is', 'snapshots are')} not to be trusted; next: {again('--replace')}"
    if unread := repair.actions[RepairAction.UNVERIFIED]:
        yield f"{count_of(unread, 'snapshot')} could not be read: run as the user that runs the broker"
    if unknown := repair.actions[RepairAction.NO_START]:
        for each in repair.log_dirs:
            if not each.log_dir.checkpoints.log_starts_are_known:
                yield (
                    f"{each.uri}: {LOG_START_OFFSETS} cannot be read, so nothing says whether a log begins at its "
                    "files or in remote storage: start the broker, which writes a new one in a minute, stop it and "
                    "repair again"
                )
        if any(finding.kind is FindingKind.OFFSETS_MISSING for finding in repair.findings):
            yield f"{unknown} cannot be made: they are behind a segment that is lost; put it back from another replica"
        else:
            yield from _without_start(repair, unknown)
    yield from _not_compared(repair)
    if above := repair.actions[RepairAction.ABOVE_NEWEST]:
        yield (
            f"{above} lie above the newest snapshot that the broker can load, and the highest of them would become its "
            "live state: give --above-newest to write them; or start the broker, which makes those of the last two "
            "segments, stop it and repair again"
        )
    for action, why in _LEFT_ALONE.items():
        if left := repair.actions[action]:
            yield f"{count_of(left, 'snapshot is', 'snapshots are')} {action}: {why}"


def _without_start(repair: HostRepair, count: int) -> Iterator[str]:
    what = f"{count} cannot be made: what came before a log's files is not known here"
    if repair.beginnings.find is None:
        yield f"{what}, but in remote storage; next: {with_remote()}"
    else:
        yield f"{what}, and remote storage does not tell"


def _not_compared(repair: HostRepair) -> Iterator[str]:
    if count := repair.actions[RepairAction.NOT_COMPARED]:
        what = f"{count_of(count, 'snapshot is', 'snapshots are')} not compared: their logs begin in remote storage"
        yield f"{what}; next: {with_remote()}"
    yield from lines(repair.beginnings)
