"""Topics that never go to remote storage.

Follows kafka.log.UnifiedLog.remoteLogEnabled: no internal topic, neither the metadata topic of remote storage nor that
of the cluster, and no topic whose cleanup.policy has `compact` in it. That configuration is not on disk, so where it is
not known the cleaner's checkpoint decides. A gap inside a segment alone proves nothing: it may be years old.
"""

from __future__ import annotations

from tiersnap.snapshot.log.log_dir import INTERNAL_COMPACTED_TOPICS, Partition

_METADATA_TOPICS = frozenset({"__remote_log_metadata", "__cluster_metadata"})


def internal_reason(topic: str) -> str:
    """Return why the topic is Kafka's own, or ""."""
    if topic in INTERNAL_COMPACTED_TOPICS:
        return "internal topic"
    return "metadata topic of remote storage or of the cluster" if topic in _METADATA_TOPICS else ""


def compaction_reason(partition: Partition, cleanup_policy: str | None = None) -> str:
    """Return why the topic counts as compacted, or "".

    Args:
        cleanup_policy: the topic's, as `delete` or `compact,delete`; None where nobody knows it.
    """
    if cleanup_policy is not None:
        is_compacted = "compact" in (word.strip() for word in cleanup_policy.split(","))
        return f"cleanup.policy is {cleanup_policy}" if is_compacted else ""
    if partition.cleaner_offset is not None:
        return f"the cleaner passed offset {partition.cleaner_offset}"
    return ""


def never_tiered_reason(partition: Partition, cleanup_policy: str | None = None) -> str:
    """Return why nothing of the partition ever goes to remote storage, or ""."""
    return internal_reason(partition.topic) or compaction_reason(partition, cleanup_policy)
