"""A plan carried out, partition by partition: folder, checkpoints, and the folder's name last."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tiersnap.remote_storage.restore.folder import build_folder, compare_folder, discard, forget_marker
from tiersnap.remote_storage.restore.plan import RestoreAction, RestorePlan
from tiersnap.remote_storage.restore.target import Target
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import ExitCode, TiersnapError, TransientError
from tiersnap.snapshot.log.restored_log import RestoredLog
from tiersnap.snapshot.units import count_of, human_bytes

_log = logging.getLogger(__name__)

_SPARE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Restored:
    """How a restore ended.

    Attributes:
        done: plans that were carried out, and what is in their folders.
        failure: what ended it before all were; None where none is left.
        left: unfinished folders of the plan that failed; no broker starts beside them.
    """

    done: tuple[tuple[RestorePlan, RestoredLog], ...]
    failure: TiersnapError | None = None
    left: tuple[Path, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """OK, or that of what failed."""
        return ExitCode.OK if self.failure is None else self.failure.exit_code


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
        target: its log directory is locked by the caller.
        begin: called with each plan before anything is done about it.
        talk: told what takes a while or is out of the ordinary.
    """
    done: list[tuple[RestorePlan, RestoredLog]] = []
    for plan in plans:
        begin(plan)
        try:
            done.append((plan, restore_partition(store, target, plan, talk)))
        except TiersnapError as error:
            _log.debug("%s failed, and what comes after it is not begun", plan.folder.name)
            return Restored(tuple(done), error, tuple(target.path.glob(f"{plan.folder.unfinished_prefix}*")))
    return Restored(tuple(done))


def check_space(target: Target, plans: Iterable[RestorePlan]) -> None:
    """See before the work that the disk has room for it.

    Raises:
        TransientError: it has not.
    """
    needed = sum(plan.folder.chain.size for plan in plans if plan.action is RestoreAction.RESTORE)
    free = shutil.disk_usage(target.path).free
    if needed and needed + _SPARE_BYTES > free:
        raise TransientError(
            f"{target.path}: {human_bytes(free)} are free, {human_bytes(needed)} are to be fetched",
            hint="free some space, or restore partition by partition",
        )


def restore_partition(
    store: ObjectStore, target: Target, plan: RestorePlan, talk: Callable[[str], None]
) -> RestoredLog:
    """Build or compare one folder and set the partition's checkpoints; see `carry_out`.

    Raises:
        TiersnapError: see `build_folder` and `compare_folder`.
    """
    folder, chain = plan.folder, plan.folder.chain
    for name in plan.leftovers:
        discard(target.path / name)
        _log.info("deleted %s, which an earlier restore left", target.path / name)
    if plan.action is RestoreAction.COMPARE:
        found = compare_folder(store, folder, target.path)
    else:
        talk(f"fetching {count_of(len(chain.pieces), 'segment')} of {folder.name}, {human_bytes(chain.size)}")
        built, found = build_folder(store, folder, target.path)
    # A broker that checked every segment would fold the producers from them that are not to be there.
    checks_all = bool(found.doubts) and not folder.empty_state
    if checks_all and target.forget_clean_shutdown():
        talk("removed .kafka_cleanshutdown: the broker is to check what the tier contradicts itself about")
    # All before the folder has its name: what a broker finds of the partition is then complete.
    target.set_checkpoints(
        (folder.topic, folder.partition),
        log_start=chain.log_start_offset,
        log_end=chain.end_offset,
        # From here on an unclean start checks segments: the empty active one, or where there was any doubt all.
        recovery_point=chain.start_offset if checks_all else chain.end_offset,
    )
    if plan.action is not RestoreAction.COMPARE:
        target.rename(built, folder.name)
    forget_marker(target.path / folder.name)
    return found
