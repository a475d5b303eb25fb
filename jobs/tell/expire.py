"""What `expire` says: rows, errors, and words for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.leftovers import by_kind, tell_leftovers
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState
from tiersnap.remote_storage.retire.expire_delete import Deleted
from tiersnap.remote_storage.retire.expire_outcome import Outcome, errors_of
from tiersnap.remote_storage.retire.expire_plan import ExpireAction, ExpiringSegment
from tiersnap.remote_storage.retire.retention import Breach
from tiersnap.remote_storage.retire.store_leftovers import SweptStore
from tiersnap.snapshot.units import human_bytes

COLUMNS = ("topic", "partition", "base_offset", "next_base_offset", "size", "breach", "action", "state", "reason")


def show(output: Output, done: Sequence[Outcome], swept: SweptStore, *, applied: bool) -> None:
    """Rows, summary and errors; then what people should do.

    Args:
        swept: what killed processes had left in the store.
    """
    rows = [row for each in done for row in _rows(each)]
    going = [segment for each in done for segment in each.plan.going]
    summary = {
        "partitions": dict(Counter(str(each.plan.action) for each in done)),
        "segments": len(going),
        "deleted": sum(
            segment.state is SegmentState.DELETE_SEGMENT_FINISHED for each in done for segment in each.deleted
        ),
        "bytes": sum(each.size for each in going),
        "leftovers": sum(len(each.plan.leftovers) for each in done),
        "leftovers_removed": by_kind(objects := sum(each.swept.objects for each in done), swept),
    }
    output.row_dicts("expire", rows, columns=COLUMNS, summary=summary, errors=errors_of(done))
    for plan, deleted, error, _ in done:
        if plan.action is not ExpireAction.DELETE:
            output.warn(f"{plan.partition}: {plan.action}: {plan.reason}")
        if error is not None:
            output.warn(error.message)
        for each in deleted:
            for left in each.failures:
                output.warn(f"still there: {left.key}: {left.reason}")
    tell_leftovers(output, objects, swept)
    if not done:
        # As it is once all of a topic has gone; or its name was mistyped.
        output.warn("nothing to delete: there are no remote segments of a topic and partition that was asked for")
    elif not going and not summary["leftovers"]:
        output.talk("nothing to delete")
    elif not applied:
        output.talk("nothing was deleted: give --apply")


def _rows(outcome: Outcome) -> Iterator[dict[str, object]]:
    plan, deleted = outcome.plan, outcome.deleted
    at = plan.partition
    where: dict[str, object] = {"topic": at.topic, "topic_id": at.topic_id, "partition": at.partition}
    if plan.action is not ExpireAction.DELETE:
        yield {**where, "action": str(plan.action), "reason": plan.reason}
    became = {each.segment.segment_id: each for each in deleted}
    for each in plan.segments:
        yield where | _segment_row(each, became.get(each.segment_id), started=bool(deleted))


def _segment_row(segment: ExpiringSegment, deleted: Deleted | None, *, started: bool) -> dict[str, object]:
    is_recorded = segment.breach is Breach.BEGUN or (started and segment.action is ExpireAction.DELETE)
    state = SegmentState.DELETE_SEGMENT_STARTED if is_recorded else SegmentState.COPY_SEGMENT_FINISHED
    failures = () if deleted is None else deleted.failures
    return {
        "segment_id": segment.segment_id,
        "base_offset": segment.start_offset,
        "next_base_offset": segment.end_offset,
        "max_timestamp": segment.max_timestamp,
        "bytes": segment.size,
        "size": human_bytes(segment.size),
        "breach": str(segment.breach),
        "action": str(segment.action),
        "state": (state if deleted is None else deleted.state).name,
        "reason": "; ".join(each.reason for each in failures) or segment.reason,
        "keys": list(segment.keys),
    }
