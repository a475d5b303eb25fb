"""The explanation of an error or a situation, for one release of brokers and clients or for all.

An error has three names: its name in the protocol, the Java exception, and its error code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tiersnap.snapshot.exactly_once.explain.broker_words import BROKER_WORDS, BrokerWord, find_word, rows_of
from tiersnap.snapshot.exactly_once.explain.clients import of_abort, of_application, of_coordinator, of_produce
from tiersnap.snapshot.exactly_once.explain.coordinator_situations import OF_COORDINATORS
from tiersnap.snapshot.exactly_once.explain.partition_situations import OF_PARTITIONS
from tiersnap.snapshot.exactly_once.explain.situations import E, ExplainedCase, ExplainedRow, runs
from tiersnap.snapshot.exactly_once.models.answers import Answer
from tiersnap.snapshot.exactly_once.models.coordinator_state import CoordinatorEra, eras_of_version
from tiersnap.snapshot.exactly_once.models.decision_table import Row, read_table
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, BrokerEra, Reaction, Severity, era_of
from tiersnap.snapshot.exactly_once.models.produce_reaction import knows_error as produce_knows
from tiersnap.snapshot.exactly_once.models.transaction_reaction import knows_error as coordinator_knows

SITUATIONS: tuple[ExplainedCase[BrokerEra] | ExplainedCase[CoordinatorEra], ...] = (*OF_PARTITIONS, *OF_COORDINATORS)
# Follows org.apache.kafka.common.protocol.Errors.
TABLE = read_table("""
 error                                 | code | exception
 UNKNOWN_SERVER_ERROR                  | -1   | UnknownServerException
 REQUEST_TIMED_OUT                     | 7    | TimeoutException
 MESSAGE_TOO_LARGE                     | 10   | RecordTooLargeException
 COORDINATOR_LOAD_IN_PROGRESS          | 14   | CoordinatorLoadInProgressException
 COORDINATOR_NOT_AVAILABLE             | 15   | CoordinatorNotAvailableException
 NOT_COORDINATOR                       | 16   | NotCoordinatorException
 NOT_ENOUGH_REPLICAS                   | 19   | NotEnoughReplicasException
 ILLEGAL_GENERATION                    | 22   | IllegalGenerationException
 UNKNOWN_MEMBER_ID                     | 25   | UnknownMemberIdException
 TOPIC_AUTHORIZATION_FAILED            | 29   | TopicAuthorizationException
 GROUP_AUTHORIZATION_FAILED            | 30   | GroupAuthorizationException
 CLUSTER_AUTHORIZATION_FAILED          | 31   | ClusterAuthorizationException
 UNSUPPORTED_VERSION                   | 35   | UnsupportedVersionException
 INVALID_REQUEST                       | 42   | InvalidRequestException
 OUT_OF_ORDER_SEQUENCE_NUMBER          | 45   | OutOfOrderSequenceException
 DUPLICATE_SEQUENCE_NUMBER             | 46   | DuplicateSequenceException
 INVALID_PRODUCER_EPOCH                | 47   | InvalidProducerEpochException
 INVALID_TXN_STATE                     | 48   | InvalidTxnStateException
 INVALID_PRODUCER_ID_MAPPING           | 49   | InvalidPidMappingException
 INVALID_TRANSACTION_TIMEOUT           | 50   | InvalidTxnTimeoutException
 CONCURRENT_TRANSACTIONS               | 51   | ConcurrentTransactionsException
 TRANSACTION_COORDINATOR_FENCED        | 52   | TransactionCoordinatorFencedException
 TRANSACTIONAL_ID_AUTHORIZATION_FAILED | 53   | TransactionalIdAuthorizationException
 OPERATION_NOT_ATTEMPTED               | 55   | OperationNotAttemptedException
 UNKNOWN_PRODUCER_ID                   | 59   | UnknownProducerIdException
 FENCED_INSTANCE_ID                    | 82   | FencedInstanceIdException
 PRODUCER_FENCED                       | 90   | ProducerFencedException
 TRANSACTION_ABORTABLE                 | 120  | TransactionAbortableException
""")


@dataclass(frozen=True, slots=True)
class NamedError:
    """An error with its names. No broker sends DELIVERY_TIMED_OUT, so its `code` and `exception` are None."""

    error: Answer
    code: int | None
    exception: str | None

    @property
    def names(self) -> frozenset[str]:
        """Return the lower-case names that `explain` accepts: the error, its exception and its code."""
        names = {str(self.error).lower()}
        if self.exception is not None:
            names.add(self.exception.lower())
        if self.code is not None:
            names.add(str(self.code))
        return frozenset(names)


def _named(row: Row) -> NamedError:
    return NamedError(Answer(row["error"]), int(row["code"]), row["exception"])


ERRORS = (*map(_named, TABLE), NamedError(Answer.DELIVERY_TIMED_OUT, None, None))


def named_error(word: str) -> NamedError | None:
    """Return the error with this name, exception (with or without a Java package) or code, None if there is none."""
    last = word.rpartition(".")[2].lower()
    for each in ERRORS:
        if last in each.names:
            return each
    return None


_NAMES = re.compile(r"\b(?:\w+Exception|[A-Z]+(?:_[A-Z]+)+)\b")
# The tables have no row for this error, so clients react as to any other error.
_OF_PRODUCE_AS_ANY = Answer.TOPIC_AUTHORIZATION_FAILED
_COORDINATORS = {version: eras_of_version(version) for version in (1, 2)}
_OF_CLIENTS = frozenset({"InitProducerId", "AddPartitionsToTxn", "EndTxn(COMMIT)", "EndTxn(ABORT)"})


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation. It has rows for brokers and coordinators, rows for clients, and rows for the application.

    Attributes:
        error: the explained error; None for a situation or a word.
        word: the explained word of a broker's log; else None.
    """

    error: NamedError | None
    rows: tuple[ExplainedRow, ...]
    word: BrokerWord | None = None

    @property
    def is_answered(self) -> bool:
        """Return whether a row describes the answer of a broker or a coordinator to a situation."""
        return any(row.situation is not None for row in self.rows)


def explain(word: str, *, broker: str | None = None, client: str | None = None) -> Explanation | None:
    """Explain an error, a situation or a word of a broker's log. Return None for any other text.

    If the text is a line of a log, the first error in it is explained.

    Args:
        broker, client: releases, such as 3.9 or 3.9.1; None for all.
    """
    error = named_error(word)
    if error is not None:
        return _explain_error(error, broker, client)
    for situation in SITUATIONS:
        if situation.name == word.lower():
            return _explain_situation(situation.name, situation.request, broker, client)
    found = find_word(word)
    if found is not None:
        return Explanation(None, rows_of(found, broker), found)
    inside = _error_inside(word)
    return None if inside is None else _explain_error(inside, broker, client)


def _error_inside(line: str) -> NamedError | None:
    """Return the first error that a log line contains, None if it contains none."""
    return next(filter(None, map(named_error, _NAMES.findall(line))), None)


def _explain_error(error: NamedError, broker: str | None, client: str | None) -> Explanation:
    answers = _answered_with(error.error, broker)
    requests = {row.request for row in _answered_with(error.error, None)}
    return Explanation(error, (*answers, *_of_clients(error.error, requests, client, broker)))


def _explain_situation(name: str, request: str, broker: str | None, client: str | None) -> Explanation:
    answers = list(_of_situation(name, broker))
    rows = list(answers)
    for error in dict.fromkeys(row.answer for row in answers):
        if error is not None and error.is_error:
            rows += _of_clients(error, {request}, client, broker)
    return Explanation(None, tuple(rows))


def _answered_with(error: Answer, release: str | None) -> Iterator[ExplainedRow]:
    for each in SITUATIONS:
        for row in _of_situation(each.name, release):
            if row.answer is error:
                yield row


def _of_situation(name: str, release: str | None) -> Iterator[ExplainedRow]:
    """Yield the answers of brokers or coordinators to a situation, for one release or for all."""
    for asked in _with_name(OF_PARTITIONS, name):
        yield from _answers("broker", None, asked, BROKER_ERAS, release)
    for asked_of_coordinator in _with_name(OF_COORDINATORS, name):
        for version, eras in _COORDINATORS.items():
            yield from _answers("coordinator", version, asked_of_coordinator, eras, release)


def _with_name(cases: Iterable[ExplainedCase[E]], name: str) -> list[ExplainedCase[E]]:
    return [each for each in cases if each.name == name]


def _is_of_no_era(release: str | None, eras: Sequence[E]) -> bool:
    """Return whether `release` is given but is in none of the eras."""
    if release is None:
        return False
    try:
        era_of(release, eras)
    except ValueError:
        return True
    return False


def _answers(
    who: str, version: int | None, situation: ExplainedCase[E], eras: Sequence[E], release: str | None
) -> Iterator[ExplainedRow]:
    if _is_of_no_era(release, eras):
        return
    about = (version, situation.request, situation.name, situation.when)
    for run, said in runs(eras, situation.ask):
        if said is not None and run.has(release, eras):
            yield ExplainedRow(who, run.releases, run.eras[0].changed_by, *about, said.answer, said.does)


def _of_clients(error: Answer, requests: set[str], release: str | None, broker: str | None) -> Iterator[ExplainedRow]:
    """Yield the reactions of clients to an error. If only brokers receive the error, yield nothing.

    `requests` are the requests to which the error is an answer. If the set is empty, yield the reactions from each
    decision table that names the error.
    """
    rows: list[ExplainedRow] = []
    if _answers_produce(error, requests):
        rows += of_produce(error, release)
    if _answers_coordinator_requests(error, requests):
        rows += of_coordinator(error, release)
    yield from rows
    if any(map(_ends_in_abort, rows)):
        yield from of_abort(error, release, broker)
    if rows:
        yield from of_application(error, release)


def _answers_produce(error: Answer, requests: set[str]) -> bool:
    if requests:
        return "Produce" in requests
    return produce_knows(error) or error is _OF_PRODUCE_AS_ANY


def _answers_coordinator_requests(error: Answer, requests: set[str]) -> bool:
    if requests:
        return not requests.isdisjoint(_OF_CLIENTS)
    return coordinator_knows(error)


def _ends_in_abort(row: ExplainedRow) -> bool:
    return row.severity == Severity.ABORTABLE and row.does != Reaction.UNINITIALIZED.next_step


def names() -> Iterator[tuple[str, str, str]]:
    """Yield name, request and meaning of each error, situation and word of a broker's log."""
    for error in ERRORS:
        meaning = "" if error.code is None else f"error {error.code}, {error.exception}"
        yield str(error.error), "", meaning
    for situation in SITUATIONS:
        yield situation.name, situation.request, situation.when
    for word in BROKER_WORDS:
        yield word.name, word.request, word.when
