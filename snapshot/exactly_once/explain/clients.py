"""Rows of an explanation: the reactions of Java clients to an error, and how the application receives the error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tiersnap.snapshot.exactly_once.explain.situations import EraRange, ExplainedRow, runs
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import ResumeRule, coordinator_era_of
from tiersnap.snapshot.exactly_once.models.decision_table import Row
from tiersnap.snapshot.exactly_once.models.eras import CLIENT_ERAS, ClientEra, Reaction, Severity, era_of
from tiersnap.snapshot.exactly_once.models.exception_groups import ExceptionGroup, Surface, exception_group
from tiersnap.snapshot.exactly_once.models.produce_reaction import IDEMPOTENT, TRANSACTIONAL, SentBatch, react
from tiersnap.snapshot.exactly_once.models.transaction_reaction import TABLE, react_to_coordinator, repair_steps

# Each condition of the tables is true for at least one of these batches.
_BATCHES = (
    SentBatch(),
    SentBatch(log_start_offset=5, was_renumbered=True),
    SentBatch(log_start_offset=5, last_acked_offset=3),
    SentBatch(log_start_offset=5, last_acked_offset=9),
    SentBatch(is_next=False),
    SentBatch(has_unresolved=True),
    SentBatch(has_unresolved=True, follows_unresolved=True),
    SentBatch(has_unresolved=True, can_bump=False),
    SentBatch(has_attempts=False),
    SentBatch(has_records=False),
)
_WHEN = {
    "no log start": "the response has no log start offset, because the leader moved",
    "renumbered since": "the producer gave the batch new sequences after this request",
    "front removed": "the record that was acknowledged last is below the log start offset",
    "others come first": "earlier batches are still in flight",
    "others are unresolved": "an earlier batch expired after it was sent, and this batch does not directly follow the "
    "expired batch",
    "attempts left": "retries remain, and delivery.timeout.ms has not passed",
    "several records": "the batch has several records",
    "gap remains": "an earlier batch expired after it was sent",
    "gap remains, no bump": "an earlier batch expired after it was sent, and the coordinator is older than 2.5",
    "can bump": "the coordinator is of 2.5 or later",
    "always": "otherwise",
}
_REQUESTS = ("InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn")
_Asked = tuple[str, Reaction | None, Answer | None]
_COORDINATORS = (
    ("the coordinator is older than 2.5", False, 1),
    ("the coordinator is of 2.5 or later", True, 1),
    ("the coordinator is of 4.0 or later, with transaction.version 2", True, 2),
)
_SURFACES = {
    Surface.CALL: "thrown by the next transactional call",
    Surface.BOTH: "given to the callback of send, and thrown by the next transactional call",
}


def of_produce(error: Answer, release: str | None) -> Iterator[ExplainedRow]:
    """Yield the reactions of idempotent and of transactional clients to an answer to Produce."""
    for mode, table, transactional in (("idempotent", IDEMPOTENT, False), ("transactional", TRANSACTIONAL, True)):

        def ask(era: ClientEra, batch: SentBatch, is_transactional: bool = transactional) -> _Asked:
            found = react(error, era, batch, transactional=is_transactional)
            return found.rule, found.reaction, found.said

        asks = [lambda era, batch=batch: ask(era, batch) for batch in _BATCHES]
        yield from _rows(error, f"Produce, {mode}", table, asks, release)


def of_coordinator(error: Answer, release: str | None) -> Iterator[ExplainedRow]:
    """Yield the reactions of clients to an answer of a coordinator."""

    def ask(era: ClientEra, request: str, can_bump: bool) -> _Asked:
        found = react_to_coordinator(error, request, era, can_bump=can_bump)
        return found.rule, found.reaction, None if found.said is error else found.said

    asks = [
        lambda era, request=request, can_bump=can_bump: ask(era, request, can_bump)
        for request in _REQUESTS
        for can_bump in (True, False)
    ]
    yield from _rows(error, "any of a transaction", TABLE, asks, release)


def _rows(
    error: Answer,
    request: str,
    table: Sequence[Row],
    asks: Sequence[Callable[[ClientEra], _Asked]],
    release: str | None,
) -> Iterator[ExplainedRow]:
    """Yield reactions in the order of `table`. Skip a row of the table if no function in `asks` returns its number."""
    deciding: dict[str, Callable[[ClientEra], _Asked]] = {}
    for ask in asks:
        for era in CLIENT_ERAS:
            deciding.setdefault(ask(era)[0], ask)
    rows = [row for row in table if row["#"] in deciding]
    for row in rows:
        when = "in any case" if len(rows) == 1 else _WHEN[row["condition"]]
        asked = row.get("request", "any")
        if asked == "any":
            asked = request
        for run, reaction, said in _reactions(deciding[row["#"]], release):
            does = _does(reaction, said, is_coordinator=table is TABLE)
            yield _row(run, error, asked, when, does, reaction)


def _reactions(
    ask: Callable[[ClientEra], _Asked], release: str | None
) -> Iterator[tuple[EraRange, Reaction, Answer | None]]:
    """Yield (range of client releases, their reaction, error that the application receives)."""
    for run, (_, reaction, said) in runs(CLIENT_ERAS, ask):
        if reaction is not None and run.has(release, CLIENT_ERAS):
            yield run, reaction, said


def _does(reaction: Reaction, said: Answer | None, *, is_coordinator: bool) -> str:
    does = reaction.next_step
    if is_coordinator and reaction is Reaction.RETRY:
        does = "sends the same request again"
    if said is None:
        return does
    return f"{does}; the application is told {said}"


def _row(
    run: EraRange, error: Answer, request: str, when: str, does: str, reaction: Reaction | None = None
) -> ExplainedRow:
    severity = None if reaction is None else reaction.severity
    changed_by = run.eras[0].changed_by
    return ExplainedRow("client", run.releases, changed_by, None, request, None, when, error, does, severity)


def of_abort(error: Answer, release: str | None, broker: str | None) -> Iterator[ExplainedRow]:
    """Yield the requests that a client sends in an abort. `broker` is the coordinator's release, or None for all."""
    for when, takes_identity, version in _coordinators(broker):

        def steps(era: ClientEra, takes: bool = takes_identity, of_version: int = version) -> str:
            return ", ".join(repair_steps(error, era, takes_identity=takes, transaction_version=of_version))

        for run, said in runs(CLIENT_ERAS, steps):
            if run.has(release, CLIENT_ERAS):
                yield _row(run, error, "abortTransaction()", when, f"sends {said}")


def _coordinators(broker: str | None) -> Iterator[tuple[str, bool, int]]:
    """Yield the kinds of coordinator that a broker of release `broker` may run, or all kinds if `broker` is None."""
    for when, takes_identity, version in _COORDINATORS:
        if broker is None or _may_be(broker, takes_identity=takes_identity, version=version):
            yield when, takes_identity, version


def _may_be(broker: str, *, takes_identity: bool, version: int) -> bool:
    era = coordinator_era_of(broker, 1)
    has_version = version == 1 or era.first >= (4, 0)
    return has_version and takes_identity == (era.resume is not ResumeRule.NEVER)


def of_application(error: Answer, release: str | None) -> Iterator[ExplainedRow]:
    """Yield a row about the error in the application: its group in KIP-1050, and what KIP-691 proposed.

    Yield nothing for clients before KIP-1050, or if neither KIP mentions the error.
    """
    group = exception_group(error)
    if group is None or not _has_kip_1050(release):
        return
    is_retried = group.proposed is Severity.RETRY
    met = "not reported to the application while the client tries again" if is_retried else _SURFACES[group.surface]
    shipped = "of no group" if group.kip1050 is None else f"of the group {group.kip1050}Exception"
    does = f"is {met}; {shipped}; {_of_kip_691(group)}"
    yield ExplainedRow("application", "4.1-4.4", "KIP-1050", None, "", None, "", error, does)


def _has_kip_1050(release: str | None) -> bool:
    return release is None or era_of(release, CLIENT_ERAS) is CLIENT_ERAS[-1]


def _of_kip_691(group: ExceptionGroup) -> str:
    """Return a description of KIP-691's proposal for the error that `group` classifies."""
    wrapped = ", wrapped once" if group.wraps else ""
    thrown = "" if group.streams_action is None else f", thrown again by Kafka Streams as {group.streams_action}"
    failure = "" if group.failure_type is None else f", of type {group.failure_type}"
    return f"KIP-691, which Kafka never implemented, proposed the severity {group.proposed}{wrapped}{thrown}{failure}"
