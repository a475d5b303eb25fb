"""`tiersnap producers`: list the active producers on disk, as kafka-transactions describe-producers does."""

from __future__ import annotations

import click

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.option_types import TIME
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.sentences import of_unlocated, tell_not_compared
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.transactions.kafka_table import DESCRIBE_PRODUCERS, in_words
from tiersnap.snapshot.exactly_once.transactions.kinds import ListedProducer
from tiersnap.snapshot.units import count_of, format_duration

# As for --now of other commands, a settings file may not set this option.
as_of_option = click.option(
    "--now",
    "--as-of",
    "as_of",
    type=TIME,
    default="now",
    help="Use this time as the current time, for example for an old copy of a disk.  [default: the clock]",
)
COLUMNS = {"topic": "Topic", "partition": "Partition", **in_words(DESCRIBE_PRODUCERS)}


@command(ListedProducer, kafka="kafka-transactions.sh describe-producers")
@opt.log_dirs_argument()
@opt.selection_options
@opt.producer_expiration_option
@as_of_option
@opt.crc_option
@opt.log_start_option
def producers(
    output: Output,
    log_dirs: tuple[str, ...],
    selection: opt.Selection,
    producer_expiration: int | None,
    as_of: int,
    check_crc: bool,
    log_starts: opt.LogStarts,
) -> int:
    """List the producers of the partitions in LOGDIR, as describe-producers lists the leader's producers.

    tiersnap producers /var/lib/kafka/data --partition orders-0

    The command replays each partition to its end. It needs no running broker and no Java. Reading is safe while the
    broker runs. Producers older than --producer-expiration are left out, and counted on stderr.

    The exit code is 5 if a file is damaged, 6 if this user may not read a file, 4 if a log start offset is unknown.
    """
    from tiersnap.snapshot.exactly_once.transactions.producers import (
        ProducerListing,
        open_of_one_cluster,
        partitions_of,
    )
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.log.selection import count, findings_of

    opened = open_of_one_cluster(log_dirs, log_starts)
    listing = ProducerListing(producer_expiration, as_of, check_crc)
    listing.findings.extend(findings_of(opened))
    progress = Progress(output, "replaying", count(opened, selection))
    partitions = progress.watch(partitions_of(opened, selection))
    if output.format is Format.KAFKA:
        partitions = iter(found := list(partitions))
        if len(found) > 1:
            raise UsageError(
                "--output kafka prints one partition, but "
                f"{count_of(len(found), 'partition is', 'partitions are')} selected",
                hint="select one partition with --partition TOPIC-PARTITION",
            )
    rows = listing.producers(partitions)
    output.rows(ListedProducer, rows, columns=COLUMNS, kafka=DESCRIBE_PRODUCERS, findings=listing.findings)
    tell_not_compared(output, listing.log_starts.continued, log_dirs)
    output.warn(*of_unlocated(listing.log_starts.unlocated, remote=False))
    if listing.expired:
        output.talk(
            f"not listed: {count_of(listing.expired, 'producer')}, idle for "
            f"{format_duration(listing.producer_expiration)} or more: brokers drop such producers; to list them, add "
            "--producer-expiration none"
        )
    return exit_code_of([*listing.findings, *[Verdict.UNKNOWN_LOG_START] * len(listing.log_starts.unlocated)])
