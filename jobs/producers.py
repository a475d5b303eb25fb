"""`tiersnap producers`: the producers that a broker would know, as kafka-transactions describe-producers lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.form import Form, chosen_form, form_option, print_as_kafka
from tiersnap.jobs.options.transactions import (
    as_of_option,
    log_dirs_argument,
    opened,
    partition_option,
    partitions_of,
)
from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.findings import Finding, exit_code_of
from tiersnap.snapshot.log.log_dir import LogDir, Partition
from tiersnap.snapshot.transactions.kafka_table import DESCRIBE_PRODUCERS
from tiersnap.snapshot.transactions.producers import producer_rows, replay_to_end
from tiersnap.snapshot.units import format_duration


@click.command()
@log_dirs_argument
@params.topic_option
@partition_option
@params.producer_expiration_option
@as_of_option
@params.crc_option
@form_option("kafka-transactions.sh describe-producers")
@click.pass_obj
def producers(
    output: Output,
    sources: tuple[str, ...],
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
    log_dirs = opened(sources)
    findings: list[Finding] = [finding for log_dir in log_dirs for finding in log_dir.findings]
    expired = 0

    def rows() -> Iterator[dict[str, object]]:
        nonlocal expired
        for log_dir, each in wanted:
            replayed = replay_to_end(log_dir.filesystem, each, check_crc=check_crc)
            findings.extend(replayed.examination.findings)
            live = replayed.live(as_of=as_of, expiration=producer_expiration)
            expired += (0 if replayed.entries is None else replayed.entries.size) - live.size
            yield from producer_rows(each, live)

    wanted = partitions_of(log_dirs, sources, topic, partition)
    if chosen is Form.KAFKA:
        wanted = _only(wanted)
        print_as_kafka(output, DESCRIBE_PRODUCERS, rows(), findings)
    else:
        columns = {"partition": "Partition", **DESCRIBE_PRODUCERS}
        output.rows("producers", rows(), columns=columns, findings=findings)
    if expired:
        output.talk(
            f"not listed: {expired} producers that were idle for {format_duration(producer_expiration)} or more, which "
            "brokers have dropped; --producer-expiration none lists them"
        )
    return exit_code_of(findings)


def _only(partitions: Iterator[tuple[LogDir, Partition]]) -> Iterator[tuple[LogDir, Partition]]:
    """The one partition, as the tool takes no more.

    Raises:
        UsageError: there are several.
    """
    found = list(partitions)
    if len(found) > 1:
        raise UsageError(
            f"--output kafka is of one partition, and these are {len(found)}", hint="name it: --topic T --partition P"
        )
    return iter(found)
