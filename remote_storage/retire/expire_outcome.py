"""What became of the partitions that `expire` looked at: what failed, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tiersnap.remote_storage.inventory.remote_inventory import list_remote_partition
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.retire.expire_delete import Deleted, delete_expired
from tiersnap.remote_storage.retire.expire_plan import ExpireAction, ExpirePlan
from tiersnap.remote_storage.retire.leftovers import Swept, sweep_partition
from tiersnap.remote_storage.stores.object_store import DeleteFailure, ObjectStore
from tiersnap.snapshot.errors import ExitCode, GateError, TiersnapError, failure

_REFUSED = {ExpireAction.REFUSE, ExpireAction.IN_USE}


class Outcome(NamedTuple):
    """What became of a partition.

    Attributes:
        deleted: of the segments that were begun.
        error: what ended it; the other partitions go on.
        swept: what ended attempts had left.
    """

    plan: ExpirePlan
    deleted: Sequence[Deleted] = ()
    error: TiersnapError | None = None
    swept: Swept = Swept()


def carry_out(store: ObjectStore, keys: ObjectKeys, plan: ExpirePlan) -> Outcome:
    """Delete what a plan says, as far as it can be done."""
    deleted: list[Deleted] = []
    swept = Swept()
    try:
        if plan.action is ExpireAction.DELETE:
            for each in delete_expired(store, keys, plan):
                deleted.append(each)  # noqa: PERF402 - those before an error count
        for local in (False, True) if plan.leftovers else ():
            found = list_remote_partition(store, keys, plan.partition, local=local)
            swept += sweep_partition(store, keys, found, plan.expired)
    except TiersnapError as error:
        return Outcome(plan, deleted, error, swept)
    return Outcome(plan, deleted, swept=swept)


def exit_code_of(done: Sequence[Outcome]) -> ExitCode:
    """PARTIAL for what could not be deleted; where all that was asked for is refused GATE_REFUSED; locks are no error.

    What is left to brokers is as it should be.
    """
    actions = {each.plan.action for each in done}
    errors = [each.error for each in done if each.error is not None]
    if errors and not any(each.deleted for each in done) and actions == {ExpireAction.DELETE}:
        return errors[0].exit_code
    if errors or any(_left(done)):
        return ExitCode.PARTIAL
    if not actions & _REFUSED:
        return ExitCode.OK
    if actions <= {ExpireAction.IN_USE, ExpireAction.LEAVE_TO_BROKERS}:
        return ExitCode.TRANSIENT
    return ExitCode.PARTIAL if ExpireAction.DELETE in actions else ExitCode.GATE_REFUSED


def errors_of(done: Sequence[Outcome]) -> list[TiersnapError]:
    """What was refused, what ended a partition, and what could not be deleted."""
    refused = [
        GateError(f"{each.plan.partition}: {each.plan.reason}", hint=each.plan.hint)
        for each in done
        if each.plan.action in _REFUSED
    ]
    ended = [each.error for each in done if each.error is not None]
    left = (failure(f"{each.key}: {each.reason}", is_transient=False) for each in _left(done))
    return [*refused, *ended, *left]


def _left(done: Sequence[Outcome]) -> Iterator[DeleteFailure]:
    """What could not be deleted."""
    for each in done:
        yield from (failed for deleted in each.deleted for failed in deleted.failures)
        yield from each.swept.failures
