"""A plan carried out, partition by partition: folder, checkpoints, and the folder's name last."""

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
    """The end of a restore."""

    done: tuple[tuple[RestorePlan, RestoredLog], ...]  # plans that were carried out, and the logs in their folders
    failure: TiersnapError | None = None  # of the plan that ended the restore; None if all were carried out
    left: tuple[Path, ...] = ()  # unfinished folders of the plan that failed; no broker starts while they exist


def carry_out(
    store: ObjectStore,
    target: Target,
    plans: Iterable[RestorePlan],
    *,
    begin: Callable[[RestorePlan], None],
    talk: Callable[[str], None],
) -> Restored:
    """Restore the plans in their order, up to the first that fails.

    Args:
        target: the caller has locked its log directory, and made room there.
        begin: called with each plan before the plan is carried out.
        talk: prints steps that take a while, and unusual ones.
    """
    done: list[tuple[RestorePlan, RestoredLog]] = []
    for plan in plans:
        begin(plan)
        try:
            done.append((plan, restore_partition(store, target, plan, talk)))
        except TiersnapError as error:
            _log.debug("%s failed, and the plans after it are not begun", plan.folder.name)
            left = tuple(target.path.glob(f"{plan.folder.unfinished_prefix}*"))
            return Restored(tuple(done), _gone(error) if isinstance(error, ObjectNotFoundError) else error, left)
    return Restored(tuple(done))


def _gone(error: ObjectNotFoundError) -> TransientError:
    return TransientError(
        f"{error.message} since the restore was planned", hint="run restore again: it plans anew", **error.attrs
    )


def make_room(target: Target, plans: Sequence[RestorePlan]) -> None:
    """Delete the unfinished folders of earlier restores, and check that the disk has room for the new ones.

    Raises:
        NoSpaceError: the disk is too small.
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
            hint=f"restore partition by partition, or free some: {ways}",
        )


def _on_disk(plan: RestorePlan) -> int:
    """Return the bytes of a folder: indexes are some 0.5 % of the segments, and each small file takes a block."""
    chain = plan.folder.chain
    return chain.size + chain.size // 200 + len(chain.pieces) * _FILES_OF_A_SEGMENT * BLOCK


def restore_partition(
    store: ObjectStore, target: Target, plan: RestorePlan, talk: Callable[[str], None]
) -> RestoredLog:
    """Build or compare one folder and set the partition's checkpoints; see `carry_out`.

    Raises:
        TiersnapError: see `build_folder` and `compare_folder`.
    """
    folder, chain = plan.folder, plan.folder.chain
    if plan.action is RestoreAction.COMPARE:
        found = compare_folder(store, folder, target.path)
    else:
        talk(f"fetching {count_of(len(chain.pieces), 'segment')} of {folder.name}, {human_bytes(chain.size)}")
        built, found = build_folder(store, folder, target.path)
    # An empty state stays empty only if the broker does not check the segments, since that would fold producers.
    checks_all = bool(found.files.doubts) and not folder.empty_state
    if checks_all and target.forget_clean_shutdown():
        talk("removed .kafka_cleanshutdown, so that the broker checks the files on which the tier contradicts itself")
    # Before the folder gets its name, so that a broker finds a complete partition.
    target.set_checkpoints(
        (folder.topic, folder.partition),
        log_start=chain.log_start_offset,
        log_end=chain.end_offset,
        # An unclean start checks segments from here on: the empty active one, or all of them if any is doubtful.
        recovery_point=chain.start_offset if checks_all else chain.end_offset,
    )
    if plan.action is not RestoreAction.COMPARE:
        target.rename(built, folder.name)
    forget_marker(target.path / folder.name)
    return found
