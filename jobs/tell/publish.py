"""What `publish` shows: a row a partition, what was refused, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence

from tiersnap.jobs.output import Output
from tiersnap.jobs.tell import place_proof
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.publish import Published
from tiersnap.remote_storage.cluster.publish_plan import PartitionPlan, PublishAction
from tiersnap.remote_storage.cluster.topic_checks import COPY_DISABLE
from tiersnap.remote_storage.errors import LostCopyError

_OWN_COLUMN = {PublishAction.PUBLISH, PublishAction.FINISH, PublishAction.KNOWN}
COLUMNS = ("topic", "partition", "metadata_partition", "publish", "finish", "known", "others", "refused")


def show(
    output: Output,
    published: Published,
    metadata_topic: MetadataTopic,
    *,
    segments: int,
    applied: bool,
) -> None:
    """The result; `segments` were found in remote storage."""
    plans = published.plans
    output.rows(
        "publish",
        [_row(plan, metadata_topic) for plan in plans],
        columns=COLUMNS,
        summary={
            "segments": segments,
            "records_published": published.records,
            **place_proof.members_of(output, published.proof),
        },
        errors=[*(error for plan in plans for error in plan.errors), *published.doubts],
    )
    place_proof.tell(output, published.proof)
    for doubt in published.doubts:
        output.warn(doubt.message)
        output.warn(f"  {doubt.hint}")
    _tell(output, plans, applied=applied)


def _row(plan: PartitionPlan, metadata_topic: MetadataTopic) -> dict[str, object]:
    first = next(iter(plan.errors), None)
    others = {action: plan.count(action) for action in PublishAction if action not in _OWN_COLUMN}
    return {
        "topic": plan.partition.topic,
        "topic_id": plan.partition.topic_id,
        "partition": plan.partition.partition,
        "metadata_partition": metadata_topic.partition_of(plan.partition),
        "publish": plan.count(PublishAction.PUBLISH),
        "finish": plan.count(PublishAction.FINISH),
        "known": plan.count(PublishAction.KNOWN),
        "others": ", ".join(f"{count} {action}" for action, count in others.items() if count),
        "refused": type(plan.refusal).__name__ if plan.refusal else "",
        "reason": first.message if first else "",
        "hint": first.hint if first else "",
    }


def _tell(output: Output, plans: Sequence[PartitionPlan], *, applied: bool) -> None:
    for plan in plans:
        for error in plan.errors:
            kind = "lost" if isinstance(error, LostCopyError) else "held back"
            output.warn(f"{'refused' if error is plan.refusal else kind}: {error.message}")
            output.warn(f"  {error.hint}")
    open_plans = [plan for plan in plans if plan.is_open]
    if not open_plans:
        output.talk("nothing else to publish" if any(plan.errors for plan in plans) else "nothing to publish")
        return
    if not applied:
        output.talk("nothing was published: give --apply")
        return
    for topic in sorted({plan.partition.topic for plan in open_plans}):
        output.talk(
            f"next: kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=false, and the retention it had"
        )
