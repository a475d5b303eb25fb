"""Options of `expire`: which partitions, and what of them is to stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.once import once
from tiersnap.jobs.old_options.together import with_options
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.retire.expire_plan import ExpireAction, ExpirePlan
from tiersnap.remote_storage.retire.retention import Retention
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True)
class Asked:
    """What the user asked for; see the options."""

    topic: re.Pattern[str]
    partitions: tuple[int, ...]
    topic_id: str | None
    milliseconds: int | None
    size: int | None
    log_start_offset: int | None
    unmanaged: bool

    def wants(self, partition: TopicIdPartition) -> bool:
        """Whether a partition was asked for."""
        is_named = not self.partitions or partition.partition in self.partitions
        is_named &= self.topic_id in (None, partition.topic_id)
        return is_named and matches_topic(partition.topic, self.topic)

    def retention(self, now: int) -> Retention:
        """What is to stay, at `now` (ms, by the store's clock)."""
        return Retention(now, self.milliseconds, self.size, self.log_start_offset)

    def check_log_start(self, plans: Sequence[ExpirePlan]) -> None:
        """An offset means something in one partition only.

        Raises:
            UsageError: it was given for several.
        """
        plans = [plan for plan in plans if plan.action is ExpireAction.DELETE]
        found = sorted({f"{plan.partition} ({plan.partition.topic_id})" for plan in plans})
        if self.log_start_offset is not None and len(found) > 1:
            raise UsageError(
                f"--log-start {self.log_start_offset} for {count_of(len(found), 'partition')}: {', '.join(found[:5])}",
                hint="name one, with --topic, --partition and --topic-id",
            )


def expire_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options, given to the command as `asked: Asked`."""

    @wraps(command)
    def with_asked(
        *args: object,
        topic: re.Pattern[str],
        partitions: tuple[int, ...],
        topic_id: str | None,
        retention: int | None,
        retention_bytes: int | None,
        log_start: int | None,
        unmanaged: bool,
        **kwargs: object,
    ) -> object:
        if retention is None and retention_bytes is None and log_start is None:
            raise UsageError(
                "nothing says what is to go", hint="give --retention 7d, --retention-bytes 10GiB or --log-start OFFSET"
            )
        asked = Asked(topic, partitions, topic_id, retention, retention_bytes, log_start, unmanaged)
        return command(*args, asked=asked, **kwargs)

    return with_options(with_asked, _OPTIONS)


# What deletes is said each time, and never left over in an environment.
_OPTIONS = (
    once("--topic", required=True, type=params.Pattern(), help="Topics whose whole name matches this expression."),
    once("--partition", "partitions", multiple=True, type=click.IntRange(min=0), help="Only these; all by default."),
    once("--topic-id", help="Where the topic was made anew and has segments under several ids; all by default."),
    once(
        "--retention",
        type=params.Duration(),
        help="As retention.ms: segments go whose largest timestamp is so old by the store's clock, as 7d.",
    ),
    once(
        "--retention-bytes",
        type=params.Size(),
        metavar="SIZE",
        help="As retention.bytes: the oldest go as long as so much stays of each partition, as 10GiB.",
    ),
    once("--log-start", type=click.IntRange(min=0), help="Segments go that end below this offset; one partition."),
    once("--unmanaged", is_flag=True, help="No broker manages these topics; what a cluster says counts more."),
)
