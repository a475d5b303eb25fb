"""What `transactions` shows, and what it says comes next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tiersnap.jobs.old_options.form import Form, print_as_kafka
from tiersnap.jobs.output import Output, Row, cell
from tiersnap.snapshot.exactly_once.transactions import kafka_table
from tiersnap.snapshot.exactly_once.transactions.coordinator import KnownTransaction
from tiersnap.snapshot.exactly_once.transactions.hanging import (
    NEXT_STEP,
    JudgedTransaction,
    TransactionVerdict,
    abort_command,
    terminate_command,
)
from tiersnap.snapshot.exactly_once.transactions.hanging_outcome import HangingOutcome
from tiersnap.snapshot.exactly_once.transactions.rows import hanging_row, state_row
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.units import count_of

_COMMANDS_SAID = 10


def show(
    output: Output,
    form: Form,
    headings: Mapping[str, str],
    columns: Mapping[str, str],
    rows: Sequence[Row],
    findings: Sequence[Finding],
) -> None:
    """Rows with Kafka's `headings` as its tool prints them, or with our `columns` in a form of ours."""
    if form is Form.KAFKA:
        print_as_kafka(output, headings, rows, findings)
    else:
        output.row_dicts("transactions", rows, columns=columns, findings=findings)


def show_states(
    output: Output,
    form: Form,
    known: Sequence[KnownTransaction],
    findings: Sequence[Finding],
    *,
    as_of: int,
    is_list: bool,
) -> None:
    """The states of transactional ids, with the columns of `list` or of `describe`."""
    columns = kafka_table.LIST if is_list else kafka_table.DESCRIBE
    shown = kafka_table.in_words(columns)
    show(output, form, columns, shown, [state_row(each, as_of=as_of) for each in known], findings)


def show_hanging(output: Output, form: Form, outcome: HangingOutcome, *, as_of: int, everything: bool) -> None:
    """The table and what comes next; with `everything` also the transactions that do not hang."""
    shown = [each for each in outcome.judged if everything or each.verdict.is_hanging]
    headings = kafka_table.FIND_HANGING
    columns = {
        **kafka_table.in_words(headings),
        "verdict": "Verdict",
        "blocked_segment_count": "BlockedSegments",
        "reason": "Reason",
    }
    show(output, form, headings, columns, [hanging_row(each, as_of=as_of) for each in shown], outcome.findings)
    for line in _talk(outcome.judged, outcome.verdicts, len(outcome.judged) - len(shown)):
        output.talk(line)


def _talk(
    judged: Sequence[JudgedTransaction], verdicts: Mapping[TransactionVerdict, int], left_out: int
) -> Iterator[str]:
    yield f"open transactions: {cell({str(verdict): count for verdict, count in verdicts.items()})}"
    if left_out:
        yield f"not shown: {count_of(left_out, 'open transaction')} not known to hang: --all shows all"
    yield from _commands("next", [abort_command(each.transaction) for each in judged if each.verdict.is_hanging])
    for verdict in verdicts:
        if verdict in NEXT_STEP:
            yield f"next for {verdict}: {NEXT_STEP[verdict]}"
    in_two_phases = [each.coordinated for each in judged if each.verdict is TransactionVerdict.TWO_PHASE]
    ids = sorted({each.transactional_id for each in in_two_phases if each is not None})
    yield from _commands("to abort over its application's head", [terminate_command(each) for each in ids])


def _commands(when: str, commands: Sequence[str]) -> Iterator[str]:
    for command in commands[:_COMMANDS_SAID]:
        yield f"{when}: {command}"
    if len(commands) > _COMMANDS_SAID:
        yield f"and {len(commands) - _COMMANDS_SAID} more, which --output json shows"
