"""The exit code of what was judged: what is damaged, may not be read, or was refused although it was to be tiered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from tiersnap.snapshot.errors import ExitCode, TiersnapError
from tiersnap.snapshot.gate.verdict import NEXT_STEP, Verdict
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.findings import exit_code_of as exit_code_of_findings
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.snapshot.replay.expiry import ReplayOptions

# A person clears these, and not time. What waits for a transaction, a copy or an earlier segment
# is not among them.
_REFUSED = (
    Verdict.UNKNOWN_LOG_START,
    Verdict.UNKNOWN_TRANSACTIONS,
    Verdict.GAP_IN_REMOTE,
    Verdict.TOPIC_ID_UNKNOWN,
    Verdict.MISSING_INDEX,
    Verdict.MISSING_SNAPSHOT,
    Verdict.CORRUPT_SNAPSHOT,
    Verdict.SUSPECT_SNAPSHOT,
    Verdict.INDEX_DAMAGED,
    Verdict.ENCRYPTED_REMOTE,
)
_NOT_READ = (Verdict.UNREADABLE_SEGMENT, Verdict.UNVERIFIED_SNAPSHOT)


def exit_code_of(verdicts: Mapping[Verdict, int], *, apply: bool) -> ExitCode:
    """DATA_CORRUPT for damage; where it was to be tiered (`apply`) GATE_REFUSED, or PARTIAL for what was not read.

    GATE_REFUSED also for a plan that cannot tell what would be tiered, as a log start is unknown.

    Args:
        verdicts: segments by verdict.
    """
    if verdicts.get(Verdict.CORRUPT_SEGMENT):
        return ExitCode.DATA_CORRUPT
    if verdicts.get(Verdict.UNKNOWN_LOG_START) or (apply and is_refused(verdicts)):
        return ExitCode.GATE_REFUSED
    return ExitCode.PARTIAL if apply and any(verdicts.get(each) for each in _NOT_READ) else ExitCode.OK


def may_be_tiered(verdicts: Mapping[Verdict, int], options: ReplayOptions) -> bool:
    """Return whether something is to be written to remote storage: a segment, or a snapshot that one lacks."""
    replaced = (Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT) if options.replace else ()
    wanted = (Verdict.READY, Verdict.MISSING_SNAPSHOT, *replaced)
    return options.every_boundary or any(verdicts.get(each) for each in wanted)


def is_refused(verdicts: Mapping[Verdict, int]) -> bool:
    """Return whether a segment waits for a person."""
    return any(verdicts.get(each) for each in _REFUSED)


def exit_code_of_failures(codes: Collection[ExitCode]) -> ExitCode:
    """Return the exit code of failures, one at least: DATA_CORRUPT for damage, else PARTIAL.

    Where all of it may pass TRANSIENT, and where all of it was refused GATE_REFUSED.

    Args:
        codes: those of the errors.
    """
    if ExitCode.DATA_CORRUPT in codes:
        return ExitCode.DATA_CORRUPT
    alike = set(codes)
    return alike.pop() if alike in ({ExitCode.TRANSIENT}, {ExitCode.GATE_REFUSED}) else ExitCode.PARTIAL


def exit_code_of_all(findings: Iterable[Finding], errors: Iterable[TiersnapError], otherwise: ExitCode) -> ExitCode:
    """Return the one exit code of what was found, what failed, and else of what waits.

    DATA_CORRUPT for damage that was found or met; then that of the failures; then PARTIAL for what may not be read;
    else `otherwise`.
    """
    failed = {each.exit_code for each in errors}
    codes = (exit_code_of_failures(failed) if failed else ExitCode.OK, exit_code_of_findings(findings))
    return ExitCode.DATA_CORRUPT if ExitCode.DATA_CORRUPT in codes else next(filter(None, codes), otherwise)


def next_steps(verdicts: Mapping[Verdict, int], step_of: Callable[[Verdict], str] = NEXT_STEP.__getitem__) -> list[str]:
    """A line for each verdict that a person must clear, with what clears it."""
    waiting = [each for each in (*_REFUSED, *_NOT_READ, Verdict.CORRUPT_SEGMENT) if verdicts.get(each)]
    return [f"{count_of(verdicts[each], 'segment')} {each}: {step_of(each)}" for each in waiting]
