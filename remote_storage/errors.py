"""Errors of remote storage that the core has no use for."""

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
    """Raised when a key that must be there is not; names the key and the store."""


class ObjectChangedError(TransientError):
    """Raised when an object that was to be replaced is not the one that was read: another writer was faster."""


class LeaseLostError(TransientError):
    """Raised when another run has taken over a warehouse: this one was not heard of for too long."""


class UnblockHeldError(TransientError):
    """Raised when another run of `unblock` is at a topic: only one may switch its copying off and on."""


class ReadBackHeldError(TransientError):
    """Raised when another run is reading a record back from a location; one run at a time does that."""


class ClaimedError(TransientError):
    """Raised when another attempt holds the claim of a segment; names it."""


class ClaimLostError(TransientError):
    """Raised when another attempt took over the claim of a segment before this one's copy was made visible."""


class CopyInFlightError(TransientError):
    """Raised when somebody else is copying segments of a partition: beside a copier that works nothing is tiered."""


class ConditionsIgnoredError(UsageError):
    """Raised when a store overwrites what it was asked not to: two writers would not notice each other."""


class InvalidKeyError(UsageError):
    """Raised when a text is no key of this project's grammar, or a part of a key has a form Kafka does not allow."""


class IllegalStateTransitionError(TiersnapError):
    """Raised when remote segment metadata would leave KIP-405's state machine."""


class RemoteGapError(GateError):
    """Raised when offsets between two remote segments are in no complete copy; names them."""


class SegmentChangedError(TransientError):
    """Raised when a segment is no longer what was decoded; the next scan sees what it is now."""


class CorruptSegmentError(CorruptDataError):
    """Raised when a batch of a segment is damaged: a broker would cut the segment there."""


class WrongLeaderEpochsError(CorruptDataError):
    """Raised when a batch was written under another leader epoch than the leader-epoch-checkpoint beside it says."""


class DivergedLogError(CorruptDataError):
    """Raised when a local log and a remote log of one topic id have other batches at the same offsets."""


class SnapshotChangedError(TransientError):
    """Raised when a producer snapshot is not the one that was computed or compared; names its offset and place."""


class SnapshotVanishedError(TransientError):
    """Raised when a producer snapshot that was recorded is gone; whoever computed it writes it again."""


class MissingTailError(GateError):
    """Raised when remote storage has newer segments of a log than those that can be restored."""


class MissingHeadError(GateError):
    """Raised when remote storage has older segments of a log than those that can be restored."""


class EncryptedSegmentError(RemoteStorageError):
    """Raised when a segment was encrypted by the plugin, whose key tiersnap does not have."""


# Of the cluster that is asked.


class BrokerUnavailableError(TransientError):
    """Raised when no broker answers, or the one that must has no time now."""


class ClusterRefusedError(UsageError):
    """Raised when a broker says no for good: not authorized, not supported, an invalid setting."""


class TopicRefusedError(ClusterRefusedError):
    """Raised when a cluster refuses to create a topic of ours: not authorized, or a config that it does not know."""


class MetadataTopicAbsentError(UsageError):
    """Raised when the cluster has no `__remote_log_metadata`; tiersnap never makes one, nor lets it be made."""


class MetadataTopicCompactedError(GateError):
    """Raised when `__remote_log_metadata` is compacted, and takes no records without a key (KIP-1266)."""


class DeliveryFailedError(TransientError):
    """Raised when not all records were acknowledged; those that were are found by the next run."""


class UnknownTopicError(GateError):
    """Raised when the cluster has no such topic, no such partition, or another topic by that name."""


class TieringOffError(GateError):
    """Raised when the topic is not tiered: `remote.storage.enable` is off, or the topic is compacted."""


class CopyingOffError(GateError):
    """Raised when copying is off and must not be: with finite retention the broker would delete what is published."""


class SettingsAsideError(GateError):
    """Raised when a broker refuses what a topic had set before `unblock` put it aside; names it."""


class CopyingOnError(GateError):
    """Raised when copying is on: a copier that works does not see what is published, and copies it again."""


class SegmentHoleError(GateError):
    """Raised when offsets before a segment are not in remote storage: readers and the copier would skip them."""


class LeaderEpochLineageError(GateError):
    """Raised when a segment's leader epochs are not in the partition's lineage: it would be copied a second time."""


class LostCopyError(CorruptDataError):
    """Raised when brokers take offsets for tiered that no whole copy of theirs holds, and ours may not stand in."""


class HiddenOffsetsError(GateError):
    """Raised when a new segment would hide offsets of another lineage that brokers find now."""


class NotDeletedError(GateError):
    """Raised when a remote segment stays, because no proven segment holds its offsets."""


class PlaintextRefusedError(GateError):
    """Raised when plain text would go among segments that the plugin encrypted; names a manifest that shows it."""


class WrongPlaceError(GateError):
    """Raised when brokers keep their remote segments elsewhere than the place that was named; names both."""


class UnprovenPlaceError(GateError):
    """Raised when nothing proves that brokers read the place to which segments were tiered."""


class UnprovenLogError(GateError):
    """Raised when nothing shows that a local log is the leader's, before segments that were uploaded of it count."""


class CopyingSwitchedOnError(UnfinishedError):
    """Told of when copying was switched on while segments were published: the copier may have copied some of them."""


class StillStuckError(TiersnapError):
    """Raised when the copier goes on failing although the segments are published and copying was off in between."""

    exit_code = ExitCode.PARTIAL


# Of a partition that is not restored.


class MissingMetaPropertiesError(UsageError):
    """Raised when a log directory has no meta.properties: no broker would start on it."""


class UnknownClusterError(UsageError):
    """Raised when nobody said which cluster the segments come from."""


class OtherLayoutError(GateError):
    """Raised when a segment would be tiered in another layout than the one in which its finished copy lies."""


class WrongClusterError(GateError):
    """Raised when a log directory is of another cluster than the one that was named; no option overrides it."""


class OtherClusterError(GateError):
    """Raised when segments would go to another cluster and nobody said what becomes of their producer state or id."""


class FolderDiffersError(GateError):
    """Raised when a partition's folder is there and is not what restore would write; nothing is overwritten."""


class UnknownToClusterError(GateError):
    """Raised when the cluster that was asked knows nothing of the segments."""


class UnpublishedError(GateError):
    """Raised when a log needs segments of which nobody says that they were ever published."""


class NotRebuiltError(GateError):
    """Raised when a missing or wrong remote segment cannot be made right by what there is; says what is not known."""


class DeletedByClusterError(GateError):
    """Raised when the cluster that was asked has deleted the segments."""
