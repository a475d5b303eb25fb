"""`tiersnap explain`: what an error of producers means, what answers it, and what each client does then."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.release import KafkaRelease
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.explain import show, show_names
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.exactly_once.explain.explain import explain as explain_word


@click.command()
@click.argument("word", metavar="[ERROR|SITUATION]", required=False)
@click.option("--broker", type=KafkaRelease(), help="Only brokers and coordinators of this release.  [default: all]")
@click.option("--client", type=KafkaRelease(), help="Only Java clients of this release.  [default: all]")
@params.output_option
@click.pass_obj
def explain(output: Output, word: str | None, broker: str | None, client: str | None) -> int:
    """Say which situations are answered with an error, what clients of each release do then, and what changed it.

    ERROR is a name such as UNKNOWN_PRODUCER_ID, an exception such as OutOfOrderSequenceException, or a code such as 45.
    SITUATION is one of the names that are listed without either, such as retry or commit-after-timeout: what brokers
    answer, release by release. All of it is in tables (docs/models.md); nothing is asked of a cluster.
    """
    if word is None:
        show_names(output)
        return ExitCode.OK
    explained = explain_word(word, broker=broker, client=client)
    if explained is None:
        raise UsageError(f"{word}: neither an error of producers nor a situation", hint="tiersnap explain lists both")
    show(output, explained, broker)
    return ExitCode.OK
