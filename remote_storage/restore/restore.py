"""Carry out a restore plan, partition by partition: build the folder, set the checkpoints, then rename the folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.restore.partition_folder import build_folder, compare_folder, discard, forget_marker
from tiersnap.remote_storage.restore.request import RestoreAction
from tiersnap.remote_storage.restore.restore_plan import RestorePlan
from tiersnap.remote_storage.restore.target import Target
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import NoSpaceError, TiersnapError, TransientError
from tiersnap.snapshot.log.disk import BLOCK, deleted_bytes, disk_of, says_room, ways_to_free
from tiersnap.snapshot.replay.restored_log import RestoredLog
from tiersnap.snapshot.units import count_of, human_bytes

_log = logging.getLogger(__name__)

_FILES_OF_A_SEGMENT = 5  # log, two indexes, transaction index, snapshot


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    done: tuple[tuple[RestorePlan, RestoredLog], ...]  # finished plans, and the logs in their folders
    failure: TiersnapError | None = None  # error of the plan that failed; None if all plans were carried out
    left: tuple[Path, ...] = ()  # unfinished folders of the failed plan; no broker starts while they exist


def carry_out(
    store: ObjectStore,
    target: Target,
    plans: Iterable[RestorePlan],
    *,
    begin: Callable[[RestorePlan], None],
    talk: Callable[[str], None],
) -> Restored:
    """Carry out the plans in their order. Stop at the first plan that fails.

    Args:
        target: the log directory. The caller must have locked it and called `make_room`.
        begin: called with each plan before the plan is carried out.
        talk: prints messages about slow and unusual steps.
    """
    done: list[tuple[RestorePlan, RestoredLog]] = []
    for plan in plans:
        begin(plan)
        try:
            done.append((plan, restore_partition(store, target, plan, talk)))
        except TiersnapError as error:
            _log.debug("%s failed, so the later partitions of the plan are not restored", plan.folder.name)
            left = tuple(target.path.glob(f"{plan.folder.unfinished_prefix}*"))
            if isinstance(error, ObjectNotFoundError):
                return Restored(tuple(done), _gone(error), left)
            return Restored(tuple(done), error, left)
    return Restored(tuple(done))


def _gone(error: ObjectNotFoundError) -> TransientError:
    return TransientError(
        f"{error.message}, but existed when restore made its plan",
        hint="run restore again, which makes a new plan",
        **error.attrs,
    )


def make_room(target: Target, plans: Sequence[RestorePlan]) -> None:
    """Delete the unfinished folders of earlier restores, and check that the disk has room for the new folders.

    Raises:
        NoSpaceError: the disk has too little free space for the new folders.
        UsageError, TransientError: a folder cannot be deleted.
    """
    for plan in plans:
        for name in plan.leftovers:
            discard(target.path / name)
            _log.info("deleted %s, which an earlier restore left", target.path / name)
    needed = sum(_on_disk(plan) for plan in plans if plan.action is RestoreAction.RESTORE)
    disk = disk_of(target.path)
    if needed > disk.writable:
        ways = "; ".join(ways_to_free(disk, deleted_bytes(target.path)))
        raise NoSpaceError(
            f"{target.path}: {says_room('the folders', needed, disk)}",
            hint=f"restore one partition after the other, or free space: {ways}",
        )


def _on_disk(plan: RestorePlan) -> int:
    """Return the estimated bytes of a folder.

    Indexes take about 0.5 % of the segments, and each small file takes a block.
    """
    chain = plan.folder.chain
    return chain.size + chain.size // 200 + len(chain.pieces) * _FILES_OF_A_SEGMENT * BLOCK


def restore_partition(
    store: ObjectStore, target: Target, plan: RestorePlan, talk: Callable[[str], None]
) -> RestoredLog:
    """Build or compare the folder of a partition, set its checkpoints, and rename the folder. See `carry_out`.

    Raises:
        TiersnapError: see `build_folder` and `compare_folder`.
    """
    folder, chain = plan.folder, plan.folder.chain
    if plan.action is RestoreAction.COMPARE:
        found = compare_folder(store, folder, target.path)
    else:
        talk(f"fetching {count_of(len(chain.pieces), 'segment')} of {folder.name}, {human_bytes(chain.size)}")
        built, found = build_folder(store, folder, target.path)
    # With an empty producer state, the broker must not check the segments: the check would add their producers.
    checks_all = bool(found.files.doubts) and not folder.empty_state
    if checks_all and target.forget_clean_shutdown():
        talk(
            "removed .kafka_cleanshutdown, so that the broker checks the restored files: remote objects contradict "
            "each other"
        )
    # Set the checkpoints first, so that a broker finds a complete partition under the final name.
    # After an unclean stop, the broker checks the segments at or above the recovery point.
    recovery_point = chain.end_offset
    if checks_all:
        recovery_point = chain.start_offset
    target.set_checkpoints(
        (folder.topic, folder.partition),
        log_start=chain.log_start_offset,
        log_end=chain.end_offset,
        recovery_point=recovery_point,
    )
    if plan.action is not RestoreAction.COMPARE:
        target.rename(built, folder.name)
    forget_marker(target.path / folder.name)
    return found
