"""`tiersnap publish`: what was tiered, told to the brokers."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.cluster import cluster_options
from tiersnap.jobs.options.remote import layout_option, s3_options
from tiersnap.jobs.output import Output
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.lineage import open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.planner import plan_publication
from tiersnap.remote_storage.cluster.publish_plan import PartitionPlan, PublishAction
from tiersnap.remote_storage.cluster.topic_checks import COPY_DISABLE
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.presence.finished import finished_segments
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, SourceNotFoundError, TransientError
from tiersnap.snapshot.log.selection import matches_topic

_OWN_COLUMN = {PublishAction.PUBLISH, PublishAction.FINISH, PublishAction.KNOWN}
COLUMNS = ("topic", "partition", "metadata_partition", "publish", "finish", "known", "others", "refused")


@click.command()
@cluster_options
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@layout_option
@s3_options
@params.topic_option
@click.option(
    "--log-dir",
    "log_dirs",
    multiple=True,
    help="Take leader epochs from the leader's log directory, where leaders cannot be asked (SASL).",
)
@click.option("--apply", is_flag=True, help="Publish; without it the plan is shown.")
@params.output_option
@click.pass_obj
def publish(
    output: Output,
    cluster: Cluster,
    broker_id: int | None,
    remote: str,
    layout: Layout,
    s3: S3Settings,
    topic: re.Pattern[str] | None,
    log_dirs: tuple[str, ...],
    apply: bool,
) -> int:
    """Tell a cluster's brokers of the segments that are in remote storage.

    Writes COPY_SEGMENT_STARTED and COPY_SEGMENT_FINISHED to __remote_log_metadata for each complete copy in --remote
    that is not there. Run again, it publishes nothing twice; killed anywhere, the next run completes what is there.

    A partition is refused as a whole if the cluster has another topic by its name, if it is not tiered, if offsets
    before a segment are not in remote storage, or if a segment's leader epochs are not in the partition's lineage.

    Readers see what is published at once, a copier that is running does not, and would copy it again. So copying must
    be off (remote.log.copy.disable), and retention endless as long as it is. A stuck copier is freed by tiersnap
    unblock.
    """
    metadata_topic = MetadataTopic.of(cluster)
    segments = finished_segments(open_store(remote, s3), layout, lambda name: matches_topic(name, topic))
    if not segments:
        raise SourceNotFoundError(
            f"{remote}: no finished remote segment of the layout {layout.name}, or none that --topic selects",
            hint="tiersnap tier LOGDIR --remote URI --apply makes them; --layout says how they lie there",
        )
    plans = _plan(cluster, metadata_topic, segments, log_dirs)
    published = publish_plans(metadata_topic, plans, broker_id) if apply else 0
    output.rows(
        "publish",
        [row_of(plan, metadata_topic) for plan in plans],
        columns=COLUMNS,
        summary={"segments": len(segments), "records_published": published},
        errors=[plan.refusal for plan in plans if plan.refusal is not None],
    )
    tell(output, plans, applied=apply)
    return exit_code(plans)


def _plan(
    cluster: Cluster,
    metadata_topic: MetadataTopic,
    segments: Sequence[RemoteLogSegmentMetadata],
    log_dirs: tuple[str, ...],
) -> list[PartitionPlan]:
    partitions = {segment.id.topic_id_partition for segment in segments}
    with metadata_topic.read(partitions) as reader, open_lineage(cluster, log_dirs) as lineage:
        return plan_publication(cluster, reader.read_to_end(), lineage, segments)


def publish_plans(metadata_topic: MetadataTopic, plans: Sequence[PartitionPlan], broker_id: int | None) -> int:
    """Publish what is planned and not refused; returns the number of records."""
    now = int(time.time() * 1000)
    return metadata_topic.publish(
        (plan.partition, record) for plan in plans for record in plan.records(broker_id=broker_id, now=now)
    )


def row_of(plan: PartitionPlan, metadata_topic: MetadataTopic) -> dict[str, object]:
    """A partition's plan as a result row."""
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
        "reason": plan.refusal.message if plan.refusal else "",
        "hint": plan.refusal.hint if plan.refusal else "",
    }


def tell(output: Output, plans: Sequence[PartitionPlan], *, applied: bool) -> None:
    """Say what was refused and what comes next."""
    for plan in plans:
        if plan.refusal is not None:
            output.warn(f"refused: {plan.refusal.message}")
            output.warn(f"  {plan.refusal.hint}")
    open_plans = [plan for plan in plans if plan.refusal is None and not plan.is_done]
    if not open_plans:
        output.talk("nothing to publish")
        return
    if not applied:
        output.talk("nothing was published: give --apply")
        return
    for topic in sorted({plan.partition.topic for plan in open_plans}):
        output.talk(
            f"next: kafka-configs --alter --topic {topic} --add-config {COPY_DISABLE}=false, and the retention it had"
        )


def exit_code(plans: Sequence[PartitionPlan]) -> ExitCode:
    """PARTIAL where some partitions were refused; where all were, GATE_REFUSED, or TRANSIENT if that may pass."""
    refused = [plan.refusal for plan in plans if plan.refusal is not None]
    if not refused:
        return ExitCode.OK
    if len(refused) < len(plans):
        return ExitCode.PARTIAL
    return ExitCode.TRANSIENT if all(isinstance(each, TransientError) for each in refused) else ExitCode.GATE_REFUSED
