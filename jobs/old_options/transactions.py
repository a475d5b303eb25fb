"""Options of the commands about transactions and producers: several log directories, and one time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.common import Decorator, Time
from tiersnap.jobs.old_options.once import once
from tiersnap.jobs.old_options.together import as_one
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.selection import Selection

# As --now elsewhere, it is said on the command line, each time.
as_of_option: Decorator = click.option(
    "--now",
    "--as-of",
    "as_of",
    type=Time(),
    default="now",
    help="Count times up to this one: for disks that were copied long ago.  [default: the clock]",
)
partition_option: Decorator = once("--partition", type=click.IntRange(min=0), help="Only this partition.")


class Question(StrEnum):
    """What is asked; the words of kafka-transactions.sh."""

    LIST = "list"
    DESCRIBE = "describe"
    FIND_HANGING = "find-hanging"


@dataclass(frozen=True, slots=True)
class TransactionsRequest:
    """What is asked of the log directories.

    Attributes:
        transactional_id: the one to describe; None for the other questions.
        topic, partition: conditions that a partition must meet; None for all.
        max_transaction_timeout: ms, the brokers' transaction.max.timeout.ms.
        everything: also open transactions that do not hang.
        partition_count: of `__transaction_state`; None to tell it from where the transactional ids are.
        before_4_3: what brokers before 4.3 make of values of a version that they do not know.
        as_of: epoch ms.
    """

    transactional_id: str | None
    topic: re.Pattern[str] | None
    partition: int | None
    max_transaction_timeout: int | None
    everything: bool
    partition_count: int | None
    before_4_3: bool
    as_of: int
    check_crc: bool

    @property
    def selection(self) -> Selection:
        """Which partitions are looked at for open transactions."""
        return Selection(self.topic, number=self.partition)

    def checked_timeout(self, question: Question, log_dirs: Sequence[str]) -> int:
        """The transaction timeout, ms, of a request that fits the question.

        Raises:
            UsageError: it does not.
        """
        if (self.transactional_id is not None) != (question is Question.DESCRIBE):
            raise UsageError(
                "describe needs --transactional-id, and nothing else takes it",
                hint=f"tiersnap transactions list {shlex.join(log_dirs)}",
            )
        if self.max_transaction_timeout is None:
            raise UsageError("--max-transaction-timeout cannot be none", hint="15m is what kafka-transactions.sh takes")
        return self.max_transaction_timeout


# Given to the command as `asked: TransactionsRequest`.
transactions_options = as_one(
    "asked",
    TransactionsRequest,
    click.option("--transactional-id", help="describe: the one to describe."),
    params.topic_option,
    partition_option,
    click.option(
        "--max-transaction-timeout",
        type=params.Duration(),
        default="15m",
        show_default=True,
        help="find-hanging: the brokers' transaction.max.timeout.ms; a producer that wrote since may still be alive.",
    ),
    click.option(
        "--all", "everything", is_flag=True, help="find-hanging: also the open transactions that do not hang."
    ),
    click.option(
        "--partition-count",
        type=click.IntRange(min=1),
        help="Partitions of __transaction_state in the cluster.  [default: told from where the transactional ids are]",
    ),
    click.option(
        "--before-4.3",
        "before_4_3",
        is_flag=True,
        help="As coordinators before Kafka 4.3 see it: nothing of a partition behind a value of an unknown version.",
    ),
    as_of_option,
    params.crc_option,
)
