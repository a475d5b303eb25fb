"""What `producers` shows: a row a producer, and how many were left out."""

from __future__ import annotations

from collections.abc import Iterable

from tiersnap.jobs.old_options.form import Form, print_as_kafka
from tiersnap.jobs.output import Output
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.exactly_once.transactions.kafka_table import DESCRIBE_PRODUCERS, in_words
from tiersnap.snapshot.exactly_once.transactions.producer_listing import ProducerListing
from tiersnap.snapshot.log.log_dir import LogDir, Partition
from tiersnap.snapshot.units import count_of, format_duration


def show(output: Output, form: Form, listing: ProducerListing, partitions: Iterable[tuple[LogDir, Partition]]) -> None:
    """The result; partitions are replayed while they are shown.

    Raises:
        UsageError: Kafka's own form is wanted, and there are several partitions.
    """
    if form is Form.KAFKA:
        rows = listing.rows(_only(partitions))
        print_as_kafka(output, DESCRIBE_PRODUCERS, rows, listing.findings)
    else:
        columns = {"topic": "Topic", "partition": "Partition", **in_words(DESCRIBE_PRODUCERS)}
        output.row_dicts("producers", listing.rows(partitions), columns=columns, findings=listing.findings)
    if listing.expired:
        output.talk(
            f"not listed: {count_of(listing.expired, 'producer')}, idle for "
            f"{format_duration(listing.producer_expiration)} or more, and dropped by brokers; --producer-expiration "
            "none lists them"
        )


def _only(partitions: Iterable[tuple[LogDir, Partition]]) -> list[tuple[LogDir, Partition]]:
    """The one partition, as the tool takes no more."""
    found = list(partitions)
    if len(found) > 1:
        raise UsageError(
            f"--output kafka is of one partition, and these are {len(found)}", hint="name it: --topic T --partition P"
        )
    return found
