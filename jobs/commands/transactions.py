"""`tiersnap transactions`: what a log directory says of transactions, as kafka-transactions.sh says it of a cluster."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options.form import chosen_form, form_option
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument
from tiersnap.jobs.old_options.transactions import Question, TransactionsRequest, transactions_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.transactions import show_hanging, show_states
from tiersnap.snapshot.exactly_once.transactions.chosen import described, with_partitions
from tiersnap.snapshot.exactly_once.transactions.hanging_outcome import HangingOutcome
from tiersnap.snapshot.exactly_once.transactions.hanging_search import HangingSearch
from tiersnap.snapshot.exactly_once.transactions.log_dirs import missing_of, open_of_one_cluster, partitions_of
from tiersnap.snapshot.exactly_once.transactions.transaction_log import read_transaction_log
from tiersnap.snapshot.log.disk_findings import findings_of
from tiersnap.snapshot.log.findings import exit_code_of

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


@click.command(help=_HELP)
@click.argument(
    "question", metavar="[list|describe|find-hanging]", type=click.Choice([each.value for each in Question])
)
@log_dirs_argument("LOGDIR")
@transactions_options
@form_option("kafka-transactions.sh")
@click.pass_obj
def transactions(
    output: Output, question: str, log_dirs: tuple[str, ...], asked: TransactionsRequest, form: str | None
) -> int:
    """Rows are those of snapshot.exactly_once.transactions.rows."""
    chosen, timeout = chosen_form(output, form), asked.checked_timeout(Question(question), log_dirs)
    named = open_of_one_cluster(log_dirs)
    opened, findings = [each.log_dir for each in named], [*findings_of(named)]
    as_of, count, check_crc = asked.as_of, asked.partition_count, asked.check_crc
    rules = {"check_crc": check_crc, "stops_at_unknown": asked.before_4_3}
    if question == Question.FIND_HANGING:
        with Progress(output, "reading") as progress:
            search = HangingSearch(opened, count, timeout, as_of, **rules, watch=progress.watch)
            judged, log = search.judged(partitions_of(named, asked.selection))
        outcome = HangingOutcome(judged, log, [*findings, *log.findings, *search.findings])
        show_hanging(output, chosen, outcome, as_of=as_of, everything=asked.everything)
        return outcome.exit_code
    watch = Progress(output, "reading").watch
    log = read_transaction_log(opened, partition_count=count, **rules, watch=watch)
    findings += [*log.findings, *missing_of(named, log)]
    if asked.transactional_id is not None:
        known = [described(log, asked.transactional_id)]
    else:
        known = with_partitions(log, asked.topic, asked.partition)
    show_states(output, chosen, known, findings, as_of=as_of, is_list=question == Question.LIST)
    return exit_code_of(findings)
