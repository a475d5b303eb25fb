"""`tiersnap producers`: the producers that a broker would know, as kafka-transactions describe-producers lists them."""

from __future__ import annotations

import re

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.form import chosen_form, form_option
from tiersnap.jobs.old_options.log_dirs import log_dirs_argument
from tiersnap.jobs.old_options.transactions import as_of_option, partition_option
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.tell.producers import show
from tiersnap.snapshot.exactly_once.transactions.log_dirs import open_of_one_cluster, partitions_of
from tiersnap.snapshot.exactly_once.transactions.producer_listing import ProducerListing
from tiersnap.snapshot.log.disk_findings import findings_of
from tiersnap.snapshot.log.findings import exit_code_of
from tiersnap.snapshot.log.selection import Selection, count


@click.command()
@log_dirs_argument("LOGDIR")
@params.topic_option
@partition_option
@params.producer_expiration_option
@as_of_option
@params.crc_option
@form_option("kafka-transactions.sh describe-producers")
@click.pass_obj
def producers(
    output: Output,
    log_dirs: tuple[str, ...],
    topic: re.Pattern[str] | None,
    partition: int | None,
    producer_expiration: int | None,
    as_of: int,
    check_crc: bool,
    form: str | None,
) -> int:
    """List the producers of the partitions in LOGDIR, as describe-producers of their leader would.

    Each partition is replayed up to its end; no broker and no Java is asked, and reading is safe while the broker runs.
    Producers that a broker drops by now (--producer-expiration) are left out, and counted on stderr. Exits 5 when
    something is damaged, 6 when something may not be read.
    """
    chosen = chosen_form(output, form)
    opened, selection = open_of_one_cluster(log_dirs), Selection(topic, number=partition)
    listing = ProducerListing(producer_expiration, as_of, check_crc)
    listing.findings.extend(findings_of(opened))
    progress = Progress(output, "replaying", count(opened, selection))
    show(output, chosen, listing, progress.watch(partitions_of(opened, selection)))
    return exit_code_of(listing.findings)
