"""`tiersnap explain`: print the causes of a producer error, the answers of brokers, and the reactions of clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.escaped_text import shortened
from tiersnap.jobs.cli.kips import ExplainedKip, explained_kips, find_kip
from tiersnap.jobs.cli.option_types import RELEASE
from tiersnap.jobs.cli.output import Format, Output, Paragraph, terminal_width
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.explain.situations import ExplainedRow

_WIDTH = 80


@dataclass(frozen=True, slots=True)
class ExplainableName:
    """An error, a situation or a KIP that `explain` accepts; `explain` without an argument lists them."""

    COLUMNS: ClassVar = ("name", "request", "when")
    name: str
    request: str
    when: str


@command(ExplainedRow, ExplainableName, ExplainedKip)
@click.argument("word", metavar="[ERROR|SITUATION|KIP]", required=False)
@click.option("--broker", type=RELEASE, help="Show only brokers and coordinators of this release.  [default: all]")
@click.option("--client", type=RELEASE, help="Show only Java clients of this release.  [default: all]")
def explain(output: Output, word: str | None, broker: str | None, client: str | None) -> None:
    """Explain a producer error: its causes, its KIPs, and the reactions of clients by release.

    tiersnap explain UNKNOWN_PRODUCER_ID
    tiersnap explain producerStateSnapshotFile
    tiersnap explain retry --broker 3.9 --client 3.9
    tiersnap explain KIP-952

    ERROR is a name such as UNKNOWN_PRODUCER_ID, an exception such as OutOfOrderSequenceException, or a code such as 45.
    The command prints the situations in which brokers answer with the error.

    SITUATION is a name such as retry or commit-after-timeout. The command prints the brokers' answers by release.

    KIP is KIP-360, KIP-691 or KIP-952. The command prints the problems that the KIP describes. For each problem it
    prints a command that shows the problem on test data, and the output of that command.

    Without an argument the command lists all names. It reads bundled tables, and asks no cluster.
    """
    from tiersnap.snapshot.exactly_once.explain.explain import explain as explain_word
    from tiersnap.snapshot.exactly_once.explain.explain import names

    if word is None:
        rows = [ExplainableName(*each) for each in names()]
        rows += [ExplainableName(each.kip, "", each.title) for each in explained_kips()]
        output.rows(ExplainableName, rows)
        return
    if (kip := find_kip(word)) is not None:
        _print_kip(output, kip)
        return
    explained = explain_word(word, broker=broker, client=client)
    if explained is None:
        raise UsageError(
            f"{shortened(word)}: tiersnap knows no producer error, situation, KIP or word in broker logs with this "
            "name",
            hint="to list all words that tiersnap explains: tiersnap explain",
        )
    _warn_of_newer(output, broker, client)
    error = explained.error
    if error is not None and error.code is not None:
        output.talk(f"{error.error}: error {error.code}, {error.exception}")
    output.rows(ExplainedRow, explained.rows, paragraph=_paragraph)
    if not explained.is_answered:
        if broker is None:
            output.talk("no Kafka release that tiersnap knows answers with this error")
        else:
            output.talk(f"Kafka {broker} does not answer with this error, as far as tiersnap knows")
    if explained.word is not None:
        output.talk(f"next: {explained.word.command}")


def _warn_of_newer(output: Output, broker: str | None, client: str | None) -> None:
    """Print a warning for each release that is newer than the newest release in the tables."""
    from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, CLIENT_ERAS, is_newer, newest_known

    for release, whose, eras in ((broker, "brokers", BROKER_ERAS), (client, "clients", CLIENT_ERAS)):
        if release is not None and is_newer(release, eras):
            newest = newest_known(eras)
            output.warn(f"tiersnap does not know Kafka {release} yet: it shows the {whose} of {newest}")


def _print_kip(output: Output, kip: ExplainedKip) -> None:
    if output.format is not Format.TABLE:
        output.rows(ExplainedKip, [kip])
        return
    from tiersnap.jobs.cli.runbook_text import lines_of_markdown

    width = min(terminal_width() or _WIDTH, 100)
    click.echo("\n".join(lines_of_markdown(f"{kip.kip}: {kip.title}", kip.text, width)))


def _paragraph(row: ExplainedRow) -> Paragraph:
    """Return a row as text: a heading with actor, releases and subject, then condition and answer."""
    version = ""
    if row.transaction_version is not None:
        version = f"transaction.version {row.transaction_version}"
    about = ", ".join(filter(None, (row.request, row.situation, version, row.changed_by)))
    heading = f"{row.who} {row.releases}: {about}"
    answer = "" if row.answer is None else str(row.answer)
    if row.who == "application":  # such a row explains the error, and has no condition
        return Paragraph(heading, f"{answer} {row.does}.")
    condition = f"If {row.when}"
    if row.when in ("otherwise", "in any case"):
        condition = row.when.capitalize()
    if not answer:
        return Paragraph(heading, f"{condition}, the {row.who} {row.does}.")
    if row.severity:
        answer += f" ({row.severity})"
    does = f" The {row.who} {row.does}." if row.does else ""
    return Paragraph(heading, f"{condition}: {answer}.{does}")
