"""`tiersnap transactions`: print the output of kafka-transactions.sh, computed from segments without a broker."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import Meta

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import command_place
from tiersnap.jobs.cli.option_types import DURATION
from tiersnap.jobs.cli.output import Output, cell
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.sentences import of_unlocated, tell_not_compared
from tiersnap.jobs.commands.producers import as_of_option
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.transactions import kafka_table
from tiersnap.snapshot.exactly_once.transactions.kinds import KnownTransaction, PartitionTransaction
from tiersnap.snapshot.exactly_once.transactions.transaction_verdict import TransactionVerdict
from tiersnap.snapshot.formats.transaction_state import TOPIC, TransactionStatus
from tiersnap.snapshot.units import count_of, utc

if TYPE_CHECKING:
    from tiersnap.snapshot.exactly_once.transactions.hanging import JudgedTransaction
    from tiersnap.snapshot.exactly_once.transactions.hanging_search import HangingOutcome
    from tiersnap.snapshot.gate.step_template import NextStep

LIST, DESCRIBE, FIND_HANGING = QUESTIONS = ("list", "describe", "find-hanging")
_MOST_COMMANDS = 10
_HELP = """List, describe or find hanging transactions from the segments in LOGDIR, as kafka-transactions.sh does.

tiersnap transactions find-hanging /var/lib/kafka/data
tiersnap transactions list /data-1/kafka,/data-2/kafka
tiersnap transactions describe /var/lib/kafka/data \\
  --transactional-id payments-1

\b
list          every transactional id, with the state of its transaction
describe      all fields of one transactional id
find-hanging  open transactions that no coordinator will end, the segments
              that they block, and the commands that abort them

The command needs no broker and no Java. Reading is safe while the broker runs. Give all log directories of the host, or
of several hosts. If partitions of __transaction_state are missing, a transaction without a known transactional id is
not reported as hanging.

The exit code is 4 if a transaction hangs, 5 if a file is damaged, and 6 if partitions of __transaction_state are
missing or may not be read.
"""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id of `transactions list` and `describe`, with the state that the coordinator stored."""

    COLUMNS: ClassVar = kafka_table.in_words(kafka_table.DESCRIBE)
    known: KnownTransaction
    transaction_duration_ms: int | None

    @classmethod
    def of(cls, known: KnownTransaction, as_of: int) -> ListedTransaction:
        """Return the row of a transactional id; `as_of` is the current time in epoch ms."""
        start = known.value.start_timestamp
        if start < 0:
            return cls(known, None)
        return cls(known, as_of - start)

    @property
    def coordinator(self) -> str:
        """Return the partition of __transaction_state whose leader is the coordinator."""
        return f"{TOPIC}-{self.known.record.partition}"

    @property
    def topic_partitions(self) -> list[str]:
        """Return the names of the partitions of the transaction."""
        value = self.known.value
        wanted = filter(value.has_partition, sorted(value.partitions or ()))
        return [f"{topic}-{partition}" for topic, partition in wanted]

    @property
    def transaction_start_timestamp(self) -> int | None:
        """Return the start of the transaction in epoch ms; None if the transactional id has no transaction."""
        start = self.known.value.start_timestamp
        return start if start >= 0 else None

    @property
    def transaction_start_time(self) -> str | None:
        """Return the start of the transaction in ISO 8601, UTC."""
        return utc(self.transaction_start_timestamp)


@dataclass(frozen=True, slots=True)
class ListedOpenTransaction:
    """An open transaction of `transactions find-hanging`."""

    COLUMNS: ClassVar = {
        **kafka_table.in_words(kafka_table.FIND_HANGING),
        "verdict": "Verdict",
        "blocked": "BlockedSegments",
        "reason": "Reason",
    }
    transaction: PartitionTransaction
    duration_minutes: int
    verdict: TransactionVerdict
    reason: str
    transactional_id: str | None
    transaction_state: TransactionStatus | None
    coordinator_producer_epoch: int | None
    is_late: bool
    abort_command: str | None
    abort_command_before_3_0: str | None
    terminate_command: Annotated[
        str | None,
        Meta(description="aborts a two-phase commit transaction (KIP-939), whatever its application decides"),
    ]

    @property
    def last_time(self) -> str | None:
        """Return the producer's `last_timestamp` in ISO 8601, UTC."""
        return utc(self.transaction.producer.last_timestamp)

    @property
    def blocked(self) -> int:
        """Return the number of segments that the transaction keeps from being tiered."""
        return len(self.transaction.blocked_segments)


@command(ListedTransaction, ListedOpenTransaction, help=_HELP, kafka="kafka-transactions.sh")
@click.argument("question", metavar="[list|describe|find-hanging]", type=click.Choice(QUESTIONS))
@opt.log_dirs_argument()
@click.option("--transactional-id", help="describe: describe this transactional id.")
@opt.selection_options
@click.option(
    "--max-transaction-timeout",
    "timeout",
    type=DURATION,
    default="15m",
    show_default=True,
    help="find-hanging: transaction.max.timeout.ms of the brokers. A transaction counts as hanging only if its "
    "producer has been silent for longer.",
)
@click.option("--all", "everything", is_flag=True, help="find-hanging: print all open transactions.")
@click.option(
    "--partition-count",
    type=click.IntRange(min=1),
    help="Number of partitions of __transaction_state in the cluster.  [default: computed from the transactional ids]",
)
@click.option(
    "--before-4.3",
    "before_4_3",
    is_flag=True,
    help="Read like a coordinator before Kafka 4.3: in each partition stop at the first value of an unknown version.",
)
@as_of_option
@opt.crc_option
@opt.log_start_option
def transactions(
    output: Output,
    question: str,
    log_dirs: tuple[str, ...],
    transactional_id: str | None,
    selection: opt.Selection,
    timeout: int | None,
    everything: bool,
    partition_count: int | None,
    before_4_3: bool,
    as_of: int,
    check_crc: bool,
    log_starts: opt.LogStarts,
) -> int:
    """List transactions, describe a transaction, or find hanging transactions."""
    if (transactional_id is not None) != (question == DESCRIBE):
        raise UsageError(
            "describe needs --transactional-id, and list and find-hanging do not take it",
            hint=f"to list the transactional ids: tiersnap transactions list {shlex.join(log_dirs)}",
        )
    if question == DESCRIBE:
        _refuse_selection()
    if timeout is None:
        raise UsageError(
            "--max-transaction-timeout none: a duration is needed", hint="the default of kafka-transactions.sh is 15m"
        )
    from tiersnap.snapshot.exactly_once.transactions.hanging_search import HangingOutcome, HangingSearch
    from tiersnap.snapshot.exactly_once.transactions.producers import open_of_one_cluster, partitions_of
    from tiersnap.snapshot.exactly_once.transactions.transaction_log import missing_of, read_transaction_log
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.log.selection import findings_of

    named = open_of_one_cluster(log_dirs, log_starts)
    opened, findings = [each.log_dir for each in named], [*findings_of(named)]
    rules = {"check_crc": check_crc, "stops_at_unknown": before_4_3}
    if question == FIND_HANGING:
        with Progress(output, "reading") as progress:
            search = HangingSearch(opened, partition_count, timeout, as_of, **rules, watch=progress.watch)
            judged, log = search.judged(partitions_of(named, selection))
        outcome = HangingOutcome(judged, log, [*findings, *log.findings, *search.findings])
        _show_hanging(output, outcome, as_of=as_of, everything=everything)
        tell_not_compared(output, search.log_starts.continued, log_dirs)
        output.warn(*of_unlocated(search.log_starts.unlocated, remote=False))
        return exit_code_of([*outcome.problems(), *[Verdict.UNKNOWN_LOG_START] * len(search.log_starts.unlocated)])
    watch = Progress(output, "reading").watch
    log = read_transaction_log(opened, partition_count=partition_count, **rules, watch=watch)
    findings += [*log.findings, *missing_of(opened, log)]
    known = log.with_partitions(selection) if transactional_id is None else [log.described(transactional_id)]
    headings = kafka_table.LIST if question == LIST else kafka_table.DESCRIBE
    columns = kafka_table.in_words(headings)
    rows = (ListedTransaction.of(each, as_of) for each in known)
    output.rows(ListedTransaction, rows, columns=columns, kafka=headings, findings=findings)
    return exit_code_of(findings)


def _refuse_selection() -> None:
    """Raise UsageError if the command line has --topic or --partition, because `describe` takes neither."""
    ctx = click.get_current_context()
    for name, option in (("topic", "--topic"), ("partitions", "--partition")):
        if opt.is_typed(ctx, name):
            raise UsageError(
                f"describe does not take {option}: it prints everything about one transactional id",
                hint=f"leave out {option}",
            )


def _opened(judged: JudgedTransaction, as_of: int) -> ListedOpenTransaction:
    """Return the row of an open transaction. If the transaction does not hang, its abort commands are None."""
    from tiersnap.snapshot.exactly_once.transactions.hanging import abort_step
    from tiersnap.snapshot.gate.kafka_tools import terminate_transaction

    place = command_place()
    transaction, coordinated, verdict = judged.transaction, judged.coordinated, judged.verdict
    abort = abort_before_3_0 = terminate = transactional_id = state = None
    if verdict.is_hanging:
        abort = place.text(abort_step(transaction))
        abort_before_3_0 = place.text(abort_step(transaction, before_3_0=True))
    if coordinated is not None:
        transactional_id, state = coordinated.transactional_id, coordinated.value
    if transactional_id is not None and verdict is TransactionVerdict.TWO_PHASE:
        terminate = place.text(terminate_transaction(transactional_id))
    return ListedOpenTransaction(
        transaction=transaction,
        duration_minutes=judged.minutes(as_of),
        verdict=verdict,
        reason=judged.reason,
        transactional_id=transactional_id,
        transaction_state=None if state is None else state.transaction_state,
        coordinator_producer_epoch=None if state is None else state.producer_epoch,
        is_late=judged.is_late,
        abort_command=abort,
        abort_command_before_3_0=abort_before_3_0,
        terminate_command=terminate,
    )


def _show_hanging(output: Output, outcome: HangingOutcome, *, as_of: int, everything: bool) -> None:
    """Print the hanging transactions, or with `everything` all open transactions, and the next steps."""
    shown = [each for each in outcome.judged if everything or each.verdict.is_hanging]
    rows = (_opened(each, as_of) for each in shown)
    output.rows(ListedOpenTransaction, rows, kafka=kafka_table.FIND_HANGING, findings=outcome.findings)
    output.talk(*_next_steps(outcome, len(outcome.judged) - len(shown)))


def _next_steps(outcome: HangingOutcome, left_out: int) -> Iterator[str]:
    from tiersnap.snapshot.exactly_once.transactions.hanging import NEXT_STEP, abort_step
    from tiersnap.snapshot.gate.kafka_tools import terminate_transaction

    judged, verdicts = outcome.judged, outcome.verdicts
    yield f"open transactions: {cell(verdicts)}"
    if left_out:
        yield f"not shown: {count_of(left_out, 'open transaction')} not known to hang; to show them: --all"
    yield from _commands("next", [abort_step(each.transaction) for each in judged if each.verdict.is_hanging])
    for verdict in verdicts:
        if verdict in NEXT_STEP:
            yield f"next for {verdict}: {NEXT_STEP[verdict]}"
    ids = sorted(_two_phase_ids(judged))
    yield from _commands("to abort by force", list(map(terminate_transaction, ids)))


def _two_phase_ids(judged: Iterable[JudgedTransaction]) -> set[str]:
    """Return the known transactional ids of transactions in two-phase commit (KIP-939)."""
    ids = set()
    for each in judged:
        if each.verdict is TransactionVerdict.TWO_PHASE and each.coordinated is not None:
            ids.add(each.coordinated.transactional_id)
    return ids


def _commands(when: str, commands: Sequence[NextStep]) -> Iterator[str]:
    place = command_place()
    for each in commands[:_MOST_COMMANDS]:
        yield f"{when}: {place.text(each)}"
    if len(commands) > _MOST_COMMANDS:
        yield f"{len(commands) - _MOST_COMMANDS} more commands: --output json prints all"
