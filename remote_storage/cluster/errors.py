"""What stands between tiersnap and a cluster."""

from __future__ import annotations

from tiersnap.snapshot.errors import ExitCode, GateError, TiersnapError, TransientError, UsageError


class BrokerUnavailableError(TransientError):
    """Raised when no broker answers, or the one that must has no time now."""


class ClusterRefusedError(UsageError):
    """Raised when a broker says no for good: not authorized, not supported, an invalid setting."""


class MetadataTopicAbsentError(UsageError):
    """Raised when the cluster has no `__remote_log_metadata`; tiersnap never makes one, nor lets it be made."""


class DeliveryFailedError(TransientError):
    """Raised when not all records were acknowledged; those that were are found by the next run."""


class UnknownTopicError(GateError):
    """Raised when the cluster has no such topic, no such partition, or another topic by that name."""


class TieringOffError(GateError):
    """Raised when the topic is not tiered: `remote.storage.enable` is off, or the topic is compacted."""


class CopyingOffError(GateError):
    """Raised when copying is off and retention finite: the broker would delete what is published, here and remotely."""


class CopyingOnError(GateError):
    """Raised when copying is on: a copier that works does not see what is published, and copies it again."""


class SegmentHoleError(GateError):
    """Raised when offsets before a segment are not in remote storage: readers and the copier would skip them."""


class LeaderEpochLineageError(GateError):
    """Raised when a segment's leader epochs are not in the partition's lineage: it would be copied a second time."""


class StillStuckError(TiersnapError):
    """Raised when the copier goes on failing although the segments are published and copying was off in between."""

    exit_code = ExitCode.PARTIAL
