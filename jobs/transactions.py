"""`tiersnap transactions`: what a log directory says of transactions, as kafka-transactions.sh says it of a cluster."""

from __future__ import annotations

import re
import shlex
from enum import StrEnum

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.form import chosen_form, form_option
from tiersnap.jobs.options.transactions import (
    as_of_option,
    log_dirs_argument,
    opened,
    partition_option,
    partitions_of,
)
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.transactions import show, show_hanging
from tiersnap.snapshot.errors import CorruptTransactionStateError, UsageError
from tiersnap.snapshot.formats.transaction_state import TOPIC
from tiersnap.snapshot.log.findings import exit_code_of
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.transactions import kafka_table
from tiersnap.snapshot.transactions.coordinator import KnownTransaction
from tiersnap.snapshot.transactions.hanging_search import HangingSearch
from tiersnap.snapshot.transactions.rows import state_row
from tiersnap.snapshot.transactions.transaction_log import TransactionLog, read_transaction_log

_HELP = """Answer, from the segments in LOGDIR, what kafka-transactions.sh asks brokers: list, describe, find-hanging.

\b
list          every transactional id and the state of its transaction
describe      one of them in full
find-hanging  open transactions that nobody will end, which segments each
              keeps from being tiered, and the command that aborts it

Needs no broker and no Java, and reading is safe while the broker runs. Name every log directory of the host, or of
several hosts: without all partitions of __transaction_state nobody can tell which producers no transactional id
has, and then nothing is called hanging for want of one. Exits 4 when a transaction hangs, 5 when something is
damaged, 6 when partitions of __transaction_state are missing or may not be read.
"""


class Question(StrEnum):
    """What is asked; the words of kafka-transactions.sh."""

    LIST = "list"
    DESCRIBE = "describe"
    FIND_HANGING = "find-hanging"


@click.command(help=_HELP)
@click.argument(
    "question", metavar="[list|describe|find-hanging]", type=click.Choice([each.value for each in Question])
)
@log_dirs_argument
@click.option("--transactional-id", help="describe: the one to describe.")
@params.topic_option
@partition_option
@click.option(
    "--max-transaction-timeout",
    type=params.Duration(),
    default="15m",
    show_default=True,
    help="find-hanging: the brokers' transaction.max.timeout.ms; a producer that wrote since may still be alive.",
)
@click.option("--all", "everything", is_flag=True, help="find-hanging: also the open transactions that do not hang.")
@click.option(
    "--partition-count",
    type=click.IntRange(min=1),
    help="Partitions of __transaction_state in the cluster.  [default: told from where the transactional ids are]",
)
@as_of_option
@params.crc_option
@form_option("kafka-transactions.sh")
@click.pass_obj
def transactions(
    output: Output,
    question: str,
    sources: tuple[str, ...],
    transactional_id: str | None,
    topic: re.Pattern[str] | None,
    partition: int | None,
    max_transaction_timeout: int | None,
    everything: bool,
    partition_count: int | None,
    as_of: int,
    check_crc: bool,
    form: str | None,
) -> int:
    """Rows are those of snapshot.transactions.rows."""
    chosen, asked = chosen_form(output, form), Question(question)
    if (transactional_id is not None) != (asked is Question.DESCRIBE):
        raise UsageError(
            "describe needs --transactional-id, and nothing else takes it",
            hint=f"tiersnap transactions list {shlex.join(sources)}",
        )
    if max_transaction_timeout is None:
        raise UsageError("--max-transaction-timeout cannot be none", hint="15m is what kafka-transactions.sh takes")
    log_dirs = opened(sources)
    findings = [finding for log_dir in log_dirs for finding in log_dir.findings]
    if asked is Question.FIND_HANGING:
        search = HangingSearch(log_dirs, partition_count, max_transaction_timeout, as_of, check_crc=check_crc)
        judged, log = search.judged(partitions_of(log_dirs, sources, topic, partition))
        findings += [*log.findings, *search.findings]
        return show_hanging(output, chosen, judged, log, findings, as_of=as_of, everything=everything)
    log = read_transaction_log(log_dirs, partition_count=partition_count, check_crc=check_crc)
    findings += log.findings
    if log.missing_finding is not None:
        findings.append(log.missing_finding)
    if transactional_id is not None:
        columns, known = kafka_table.DESCRIBE, [_described(log, transactional_id)]
    else:
        every = log.states.known.values()
        columns, known = kafka_table.LIST, [each for each in every if _names(each, topic, partition)]
    show(output, chosen, columns, columns, [state_row(each, as_of=as_of) for each in known], findings)
    return exit_code_of(findings)


def _names(known: KnownTransaction, topic: re.Pattern[str] | None, partition: int | None) -> bool:
    """Whether --topic and --partition select a partition of its transaction; without them, any does."""
    if topic is None and partition is None:
        return True
    value = known.value
    return any(
        value.has_partition(each) and matches_topic(each[0], topic) and partition in (None, each[1])
        for each in value.partitions or ()
    )


def _described(log: TransactionLog, transactional_id: str) -> KnownTransaction:
    """What is known of one id.

    Raises:
        UsageError: nothing is.
        CorruptTransactionStateError: its record cannot be read.
    """
    known = log.states.known.get(transactional_id)
    if known is not None:
        return known
    if transactional_id in log.states.unreadable:
        raise CorruptTransactionStateError(
            f"the newest record of {transactional_id!r} cannot be read",
            hint="tiersnap transactions list LOGDIR says what is wrong with it",
        )
    if log.is_current(transactional_id):
        raise UsageError(
            f"no transactional id {transactional_id!r}: it never was, or it has expired",
            hint="tiersnap transactions list LOGDIR shows all",
        )
    missing = log.missing_finding
    raise UsageError(
        f"{transactional_id!r} is not in what could be read of {TOPIC}"
        + (f": {missing.message}" if missing is not None else ""),
        hint="name the log directories that hold all its partitions, and --partition-count",
    )
