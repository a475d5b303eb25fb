"""Errors of remote storage, which the package `snapshot` does not need."""

from __future__ import annotations

from tiersnap.snapshot.errors import (
    CorruptDataError,
    ExitCode,
    GateError,
    RemoteStorageError,
    TiersnapError,
    TransientError,
    UnfinishedError,
    UsageError,
)


class ObjectNotFoundError(RemoteStorageError):
    """Raised when an object that must exist is missing; names the key and the store."""


class ObjectChangedError(TransientError):
    """Raised when an object to replace differs from the one that was read: another writer was faster."""


class LeaseLostError(TransientError):
    """Raised when another run has taken over a warehouse, because this one did not renew its lease for too long."""


class UnblockHeldError(TransientError):
    """Raised when another run of `unblock` holds a topic: only one run may disable and enable its copying."""


class ReadBackHeldError(TransientError):
    """Raised when another run reads a record back from a location; only one run at a time may do that."""


class ClaimedError(TransientError):
    """Raised when another attempt holds the claim of a segment; names that attempt."""


class ClaimLostError(TransientError):
    """Raised when another attempt took over the claim of a segment before this one made its segment visible."""


class CopyInFlightError(TransientError):
    """Raised when a broker or another process is copying segments of a partition: tiersnap does not upload then."""


class ConditionsIgnoredError(UsageError):
    """Raised when a store ignores a condition and overwrites an object: two writers would not notice each other."""


class InvalidKeyError(UsageError):
    """Raised when a text is no key of this project's grammar, or a part of a key has a form Kafka does not allow."""


class IllegalStateTransitionError(TiersnapError):
    """Raised when remote segment metadata would leave KIP-405's state machine."""


class RemoteGapError(GateError):
    """Raised when offsets between two remote segments are in no complete segment; names the offsets."""


class SegmentChangedError(TransientError):
    """Raised when a segment changed after it was decoded; the next scan decodes it again."""


class CorruptSegmentError(CorruptDataError):
    """Raised when a batch of a segment is damaged: a broker would truncate the segment there."""


class WrongLeaderEpochsError(CorruptDataError):
    """Raised when a batch has another leader epoch than the leader-epoch-checkpoint has for its offset."""


class DivergedLogError(CorruptDataError):
    """Raised when a local log and a remote log of one topic id have other batches at the same offsets."""


class SnapshotChangedError(TransientError):
    """Raised when a producer snapshot changed after it was computed or compared; names its offset and location."""


class SnapshotVanishedError(TransientError):
    """Raised when a recorded producer snapshot was deleted; the next run computes it again."""


class MissingTailError(GateError):
    """Raised when remote storage has newer segments of a log than those that can be restored."""


class MissingHeadError(GateError):
    """Raised when remote storage has older segments of a log than those that can be restored."""


class EncryptedSegmentError(RemoteStorageError):
    """Raised when a segment was encrypted by the plugin, whose key tiersnap does not have."""


# Errors of a cluster.


class BrokerUnavailableError(TransientError):
    """Raised when no broker answers, or the responsible one cannot answer now."""


class ClusterRefusedError(UsageError):
    """Raised when a broker refuses permanently: not authorized, not supported, an invalid config."""


class TopicRefusedError(ClusterRefusedError):
    """Raised when a cluster refuses to create tiersnap's topic: not authorized, or an unknown config."""


class MetadataTopicAbsentError(UsageError):
    """Raised when the cluster has no `__remote_log_metadata`; tiersnap never creates it, nor lets brokers create it."""


class MetadataTopicCompactedError(GateError):
    """Raised when `__remote_log_metadata` is compacted, and takes no records without a key (KIP-1266)."""


class DeliveryFailedError(TransientError):
    """Raised when not all records were acknowledged; the next run writes the missing ones."""


class UnknownTopicError(GateError):
    """Raised when the cluster has no such topic, no such partition, or another topic by that name."""


class TieringOffError(GateError):
    """Raised when the topic is not tiered: `remote.storage.enable` is off, or the topic is compacted."""


class CopyingOffError(GateError):
    """Raised when another user disabled copying, or finite retention would delete segments while it is disabled."""


class SettingsAsideError(GateError):
    """Raised when configs that tiersnap overrode cannot be restored: a broker refuses them, or they were not saved."""


class CopyingOnError(GateError):
    """Raised when copying is enabled: a running copy task does not see published segments, and copies them again."""


class SegmentHoleError(GateError):
    """Raised when offsets before a segment are not in remote storage: readers and the copy task would skip them."""


class LeaderEpochLineageError(GateError):
    """Raised when a segment's leader epochs are not in the partition's lineage: brokers would copy it a second time."""


class LostCopyError(CorruptDataError):
    """Raised when brokers consider offsets tiered, but cannot read all of them from complete segments."""


class HiddenOffsetsError(GateError):
    """Raised when a new segment would hide offsets of another lineage that brokers read now."""


class NotDeletedError(GateError):
    """Raised when a remote segment stays, because no proven segment holds its offsets."""


class PlaintextRefusedError(GateError):
    """Raised when plain text would be uploaded among segments that the plugin encrypted; names such a manifest."""


class WrongPlaceError(GateError):
    """Raised when brokers keep their remote segments in another remote location than the given one; names both."""


class UnprovenPlaceError(GateError):
    """Raised when nothing proves that brokers read the remote location to which segments were uploaded."""


class UnprovenLogError(GateError):
    """Raised when nothing proves that a local log is the leader's, so its uploaded segments must not count yet."""


class CopyingSwitchedOnError(UnfinishedError):
    """Reported when copying was enabled during a publication: the copy task may have copied some segments again."""


class StillStuckError(TiersnapError):
    """Raised when the copy task still fails after the segments were published with copying disabled."""

    exit_code = ExitCode.PARTIAL


# Errors of a restore.


class MissingMetaPropertiesError(UsageError):
    """Raised when a log directory has no meta.properties: no broker would start on it."""


class UnknownClusterError(UsageError):
    """Raised when the cluster that the segments come from is unknown."""


class OtherLayoutError(GateError):
    """Raised when a segment would be uploaded in another layout than the one of its finished remote segment."""


class WrongClusterError(GateError):
    """Raised when a log directory is of another cluster than the given one; no option overrides it."""


class OtherClusterError(GateError):
    """Raised when segments would move to another cluster without options for their producer state and topic id."""


class FolderDiffersError(GateError):
    """Raised when a partition's folder exists and differs from the restored one; restore overwrites nothing."""


class UnknownToClusterError(GateError):
    """Raised when the cluster does not know the topic of the segments."""


class UnpublishedError(GateError):
    """Raised when a log needs segments without a record that they were ever published."""


class NotRebuiltError(GateError):
    """Raised when a missing or wrong remote segment cannot be rebuilt; names the missing knowledge."""


class DeletedByClusterError(GateError):
    """Raised when the cluster has deleted the segments."""
