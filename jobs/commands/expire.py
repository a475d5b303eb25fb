"""`tiersnap expire`: remote segments past their retention, of topics that no broker manages any more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import click
from msgspec import Meta

from tiersnap.jobs import options as opt
from tiersnap.jobs.command import command
from tiersnap.jobs.option_types import DURATION, PATTERN, SIZE, once
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.sentences import ByName, ForPeople, Leftovers, leftovers_by_kind, tell_leftovers
from tiersnap.remote_storage.retire.retention import Breach, ExpireAction
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
    from tiersnap.remote_storage.retire.expire_delete import Deleted, ExpireOutcome
    from tiersnap.remote_storage.retire.expire_plan import ExpirePlan, ExpiringSegment
    from tiersnap.remote_storage.stores.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class ExpiredSegment:
    """A segment of `expire` that retention has passed."""

    COLUMNS: ClassVar = (
        *("topic", "partition", "base_offset", "next_base_offset", "size", "breach", "action", "state", "reason"),
    )
    topic: str
    topic_id: str | None
    partition: int
    segment_id: str
    base_offset: int
    next_base_offset: int
    max_timestamp: Annotated[
        int | None, Meta(description="ms; null if its deletion began in an earlier run, or if it is damaged")
    ]
    bytes: Annotated[int, Meta(description="of all its objects")]
    size: ForPeople
    breach: Breach
    action: ExpireAction
    state: Literal["COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"]
    reason: Annotated[str, Meta(description="why it is still there")]
    keys: list[str]


@dataclass(frozen=True, slots=True)
class UnexpiredPartition:
    """A partition of which `expire` deletes nothing, whatever its age."""

    topic: str
    topic_id: str | None
    partition: int
    action: ExpireAction
    reason: str


@dataclass(frozen=True, slots=True)
class ExpireSummary:
    """`bytes` of the segments that go, or went."""

    partitions: ByName
    segments: int
    deleted: int
    bytes: int
    leftovers: Annotated[int, Meta(description="objects that ended attempts left, and that go, or went")]
    leftovers_removed: Leftovers


# What deletes is said each time, and never left over in an environment.
@command(ExpiredSegment, UnexpiredPartition, summary=ExpireSummary)
@opt.remote_option
@once("--topic", required=True, type=PATTERN, help="Topics whose whole name matches this expression.")
@once("--partition", "partitions", multiple=True, type=click.IntRange(min=0), help="Only these; all by default.")
@once("--topic-id", help="Where the topic was made anew and has segments under several ids; all by default.")
@once(
    "--retention",
    type=DURATION,
    help="As retention.ms: segments go whose largest timestamp is so old by the store's clock, as 7d.",
)
@once(
    "--retention-bytes",
    type=SIZE,
    metavar="SIZE",
    help="As retention.bytes: the oldest go as long as so much stays of each partition, as 10GiB.",
)
@once("--log-start", type=click.IntRange(min=0), help="Segments go that end below this offset; one partition.")
@once("--unmanaged", is_flag=True, help="No broker manages these topics; what a cluster says counts more.")
@opt.cluster_options("A broker of the cluster that wrote the segments: what it manages is left to it.")
@opt.s3_options
@opt.apply_option("Delete; without it the plan is shown.")
def expire(
    output: Output,
    remote: str,
    topic: re.Pattern[str],
    partitions: tuple[int, ...],
    topic_id: str | None,
    retention: int | None,
    retention_bytes: int | None,
    log_start: int | None,
    unmanaged: bool,
    cluster: opt.Cluster | None,
    s3: opt.S3Settings,
    apply: bool,
) -> int:
    r"""Delete remote segments past their retention, oldest first, of topics that no broker manages any more.

    tiersnap expire --remote s3://bucket/tiers --topic orders --retention 365d \
      --bootstrap-server broker-1:9092
    tiersnap expire --remote s3://bucket/tiers --topic orders --retention 365d \
      --unmanaged --apply

    Brokers delete what they manage by themselves; such partitions are named and left to them. Others go by time, size
    and log start as a broker would have it: a beginning of the log, up to the first segment that stays. Whether a
    broker manages them the cluster is asked (--bootstrap-server); where there is none left to ask, say --unmanaged.

    Segments that go are recorded first: if the command is killed, the same command finishes. A segment that an object
    lock holds is LOCKED, and the segments behind it wait. Leftovers of ended attempts go, too. See docs/expire.md.
    """
    from tiersnap.remote_storage.cluster.cluster_records import ClusterRecords
    from tiersnap.remote_storage.retire.expire_delete import ExpireOutcome, exit_code_of
    from tiersnap.remote_storage.retire.expire_plan import find_expired
    from tiersnap.remote_storage.retire.retention import Retention
    from tiersnap.remote_storage.retire.store_leftovers import SweptStore, sweep_store
    from tiersnap.remote_storage.stores.open_store import open_existing_store
    from tiersnap.snapshot.log.selection import matches_topic

    if retention is None and retention_bytes is None and log_start is None:
        raise UsageError("no limit given", hint="give --retention 7d, --retention-bytes 10GiB or --log-start OFFSET")

    def wants(at: TopicIdPartition) -> bool:
        is_named = (not partitions or at.partition in partitions) and topic_id in (None, at.topic_id)
        return is_named and matches_topic(at.topic, topic)

    store = open_existing_store(remote, s3, writes=apply)
    limits = Retention(store.now(), retention, retention_bytes, log_start)
    known = None if cluster is None else ClusterRecords(cluster)
    found = find_expired(store, wants, limits, cluster=known, unmanaged=unmanaged)
    if log_start is not None:
        found = iter(every := list(found))
        _check_log_start(log_start, every)
    # First: claims, which some of the segments take with them, say which uploads are ours.
    swept = sweep_store(store, lambda name: matches_topic(name, topic)) if apply else SweptStore()
    plans = Progress(output, "expiring").watch_done(found)
    done = list(_carried_out(store, plans)) if apply else list(map(ExpireOutcome, plans))
    objects = sum(each.swept.objects for each in done)
    summary = _summary(done, leftovers_by_kind(objects, swept))
    _show(output, done, summary)
    tell_leftovers(output, objects, swept)
    _tell_end(output, done, summary, apply=apply)
    return exit_code_of(done)


def _carried_out(store: ObjectStore, plans: Iterable[ExpirePlan]) -> Iterator[ExpireOutcome]:
    from tiersnap.remote_storage.retire.expire_delete import carry_out
    from tiersnap.remote_storage.stores.probe import check_conditions

    # Once, and only where something goes: the probe writes.
    check = cache(partial(check_conditions, store))
    for plan in plans:
        if plan.has_changes:
            check()
        yield carry_out(store, plan)


def _tell_end(output: Output, done: Sequence[ExpireOutcome], summary: ExpireSummary, *, apply: bool) -> None:
    """Say that there is nothing to delete, or that nothing was deleted."""
    if not done:
        # As it is once all of a topic has gone; or its name was mistyped.
        output.warn("nothing to delete: there are no remote segments of a topic and partition that was asked for")
    elif not summary.leftovers and not any(each.plan.has_changes for each in done):
        output.talk("nothing to delete")
    elif not apply:
        output.talk("nothing was deleted: give --apply")


def _check_log_start(log_start: int, plans: Sequence[ExpirePlan]) -> None:
    """Refuse an offset that is meant for several partitions (UsageError)."""
    found = sorted({f"{plan.partition} ({plan.partition.topic_id})" for plan in plans if plan.action == "DELETE"})
    if len(found) > 1:
        raise UsageError(
            f"--log-start {log_start} for {count_of(len(found), 'partition')}: {', '.join(found[:5])}",
            hint="name one, with --topic, --partition and --topic-id",
        )


def _summary(done: Sequence[ExpireOutcome], leftovers_removed: dict[str, int]) -> ExpireSummary:
    from tiersnap.remote_storage.metadata.segment_metadata import SegmentState

    going = [segment for each in done for segment in each.plan.going]
    states = [segment.state for each in done for segment in each.deleted]
    return ExpireSummary(
        partitions=dict(Counter(str(each.plan.action) for each in done)),
        segments=len(going),
        deleted=states.count(SegmentState.DELETE_SEGMENT_FINISHED),
        bytes=sum(each.size for each in going),
        leftovers=sum(len(each.plan.leftovers) for each in done),
        leftovers_removed=leftovers_removed,
    )


def _show(output: Output, done: Sequence[ExpireOutcome], summary: ExpireSummary) -> None:
    from tiersnap.remote_storage.retire.expire_delete import errors_of

    rows = [row for each in done for row in _rows(each)]
    kind: type[ExpiredSegment | UnexpiredPartition] = ExpiredSegment
    output.rows(kind, rows, summary=summary, errors=errors_of(done))
    for plan, deleted, error, _ in done:
        if plan.action != "DELETE":
            output.warn(f"{plan.partition}: {plan.action}: {plan.reason}")
        if error is not None:
            output.warn(error.message)
        elif plan.has_changes and not plan.going:
            output.talk(f"{plan.partition}: expire.json records that the log begins at {plan.log_start_offset}")
        for each in deleted:
            for left in each.failures:
                output.warn(f"still there: {left.key}: {left.reason}")


def _rows(outcome: ExpireOutcome) -> Iterator[ExpiredSegment | UnexpiredPartition]:
    plan, deleted = outcome.plan, outcome.deleted
    at = plan.partition
    if plan.action != "DELETE":
        yield UnexpiredPartition(at.topic, at.topic_id, at.partition, plan.action, plan.reason)
    became = {each.segment.segment_id: each for each in deleted}
    for each in plan.segments:
        yield _row(at, each, became.get(each.segment_id), started=bool(deleted))


def _row(at: TopicIdPartition, segment: ExpiringSegment, deleted: Deleted | None, *, started: bool) -> ExpiredSegment:
    from tiersnap.remote_storage.metadata.segment_metadata import SegmentState

    is_recorded = segment.breach == "BEGUN" or (started and segment.action == "DELETE")
    state = SegmentState.DELETE_SEGMENT_STARTED if is_recorded else SegmentState.COPY_SEGMENT_FINISHED
    failures = () if deleted is None else deleted.failures
    return ExpiredSegment(
        topic=at.topic,
        topic_id=at.topic_id,
        partition=at.partition,
        segment_id=segment.segment_id,
        base_offset=segment.start_offset,
        next_base_offset=segment.end_offset,
        max_timestamp=segment.max_timestamp,
        bytes=segment.size,
        size=human_bytes(segment.size),
        breach=segment.breach,
        action=segment.action,
        state=(state if deleted is None else deleted.state).name,  # type: ignore[arg-type]
        reason="; ".join(each.reason for each in failures) or segment.reason,
        keys=list(segment.keys),
    )
