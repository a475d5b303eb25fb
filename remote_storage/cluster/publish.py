"""Finished segments, told to the brokers: plan, records, and how it ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from tiersnap.remote_storage.cluster.begun import Records
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.lineage import open_lineage
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.planner import plan_publication
from tiersnap.remote_storage.cluster.publish_plan import PartitionPlan
from tiersnap.remote_storage.errors import UnblockHeldError
from tiersnap.remote_storage.presence.finished import Finished
from tiersnap.snapshot.errors import ExitCode

_log = logging.getLogger(__name__)


def plan_finished(
    cluster: Cluster,
    metadata_topic: MetadataTopic,
    finished: Finished,
    log_dirs: Sequence[str],
    unblocking: Records,
) -> list[PartitionPlan]:
    """What is to be told of finished segments, by what `__remote_log_metadata` says now; of damaged partitions nothing.

    Args:
        log_dirs: of leaders, for leader epochs; empty where the leaders themselves can be asked.
        unblocking: what `unblock` has begun: it switches a topic's copying off for a moment only.
    """
    damaged = [PartitionPlan(partition, refusal=error) for partition, error in finished.damaged.items()]
    segments = finished.segments
    if not segments:
        return damaged
    partitions = {segment.id.topic_id_partition for segment in segments}
    with metadata_topic.read(partitions) as reader, open_lineage(cluster, log_dirs) as lineage:
        plans = plan_publication(cluster, reader.read_to_end(), lineage, segments)
    return [*(plan if plan.is_done else _refuse_beside(unblocking, plan) for plan in plans), *damaged]


def _refuse_beside(unblocking: Records, plan: PartitionPlan) -> PartitionPlan:
    partition = plan.partition
    if plan.refusal is not None or not unblocking.is_begun(partition.topic, partition.topic_id or ""):
        return plan
    _log.debug("not published beside unblock: %s", partition)
    refusal = UnblockHeldError(
        f"tiersnap unblock has begun with {partition.topic} and has not ended: copying is off for a moment only",
        hint="wait for it, or run tiersnap unblock --apply again if it was killed; then run the same command again",
    )
    return replace(plan, refusal=refusal)


def publish_plans(metadata_topic: MetadataTopic, plans: Sequence[PartitionPlan], broker_id: int | None) -> int:
    """Publish what is planned and not refused; returns the number of records."""
    now = int(time.time() * 1000)
    return metadata_topic.publish(
        (plan.partition, record) for plan in plans for record in plan.records(broker_id=broker_id, now=now)
    )


def exit_code_of(plans: Sequence[PartitionPlan]) -> ExitCode:
    """DATA_CORRUPT for damage, else PARTIAL where some were refused; where all were, what all refusals ask for.

    GATE_REFUSED where they ask for different things.
    """
    refused = [plan.refusal for plan in plans if plan.refusal is not None]
    if not refused:
        return ExitCode.OK
    codes = {each.exit_code for each in refused}
    if ExitCode.DATA_CORRUPT in codes:
        return ExitCode.DATA_CORRUPT
    if len(refused) < len(plans):
        return ExitCode.PARTIAL
    return codes.pop() if len(codes) == 1 else ExitCode.GATE_REFUSED
