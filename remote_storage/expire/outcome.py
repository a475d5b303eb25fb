"""What became of the partitions that `expire` looked at: what failed, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence

from tiersnap.remote_storage.expire.delete import Deleted
from tiersnap.remote_storage.expire.plan import ExpireAction, ExpirePlan
from tiersnap.snapshot.errors import ExitCode, GateError, TiersnapError, failure

_REFUSED = {ExpireAction.REFUSE, ExpireAction.IN_USE}
Done = Sequence[tuple[ExpirePlan, Sequence[Deleted]]]


def exit_code_of(done: Done) -> ExitCode:
    """PARTIAL for what could not be deleted; where all that was asked for is refused GATE_REFUSED; locks are no error.

    What is left to brokers is as it should be.
    """
    actions = {plan.action for plan, _ in done}
    if any(each.failures for _, deleted in done for each in deleted):
        return ExitCode.PARTIAL
    if not actions & _REFUSED:
        return ExitCode.OK
    if actions <= {ExpireAction.IN_USE, ExpireAction.LEAVE_TO_BROKERS}:
        return ExitCode.TRANSIENT
    return ExitCode.PARTIAL if ExpireAction.DELETE in actions else ExitCode.GATE_REFUSED


def errors_of(done: Done) -> list[TiersnapError]:
    """What was refused, and what could not be deleted."""
    refused = [GateError(f"{plan.partition}: {plan.reason}") for plan, _ in done if plan.action in _REFUSED]
    left = [left for _, deleted in done for each in deleted for left in each.failures]
    return [*refused, *(failure(f"{each.key}: {each.reason}", is_transient=False) for each in left)]
