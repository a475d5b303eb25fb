"""Errors that the package `remote_storage` raises. The package `snapshot` does not need them."""

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
    """Raised when an object that must exist is missing. The message names the key and the store."""


class ObjectChangedError(TransientError):
    """Raised when another writer changed or deleted an object between our read and our conditional write."""


class LeaseLostError(TransientError):
    """Raised when another run took over the lease of a warehouse, because this run renewed the lease too late."""


class UnblockHeldError(TransientError):
    """Raised when another `unblock` run has locked a topic. Only one run at a time may disable copying of a topic."""


class ReadBackHeldError(TransientError):
    """Raised when another run is proving a remote location by reading a record back.

    Only one run may do this at a time.
    """


class ClaimedError(TransientError):
    """Raised when another copy attempt holds the claim of a segment. The message names that attempt."""


class ClaimLostError(TransientError):
    """Raised when another copy attempt took over the claim of a segment before the segment became visible."""


class CopyInFlightError(TransientError):
    """Raised when a broker or another process is copying segments of a partition.

    tiersnap uploads nothing of this partition during that time.
    """


class ConditionsIgnoredError(UsageError):
    """Raised when a store does not obey If-None-Match or If-Match. Two writers could overwrite each other's objects."""


class InvalidKeyError(UsageError):
    """Raised when an object key is malformed, or when Kafka does not allow a topic name, an id or a number in it."""


class IllegalStateTransitionError(TiersnapError):
    """Raised when remote segment metadata would make a state transition that KIP-405 does not allow."""


class RemoteGapError(GateError):
    """Raised when no complete segment contains the offsets between two remote segments.

    The message names the offsets.
    """


class SegmentChangedError(TransientError):
    """Raised when a segment changed after tiersnap decoded it. The next scan decodes the segment again."""


class CorruptSegmentError(CorruptDataError):
    """Raised when a batch of a segment is damaged. A broker would truncate the segment at that batch."""


class WrongLeaderEpochsError(CorruptDataError):
    """Raised when a batch and the leader-epoch-checkpoint have different leader epochs for the same offset."""


class DivergedLogError(CorruptDataError):
    """Raised when two logs of one topic id contradict each other: a local log, and the remote or the leader's log.

    Either they have different batches at the same offsets, or the leader's log ends below the offsets of segments.
    """


class SnapshotChangedError(TransientError):
    """Raised when a producer snapshot changed after tiersnap computed or compared it.

    The message names the snapshot offset, and the file or the URI.
    """


class SnapshotVanishedError(TransientError):
    """Raised when a producer snapshot that tiersnap recorded was deleted. The next run computes the snapshot again."""


class MissingTailError(GateError):
    """Raised when a restored log would end too early, because newer remote segments are missing or incomplete."""


class MissingHeadError(GateError):
    """Raised when a restored log would begin too late, because older remote segments are incomplete."""


class EncryptedSegmentError(RemoteStorageError):
    """Raised when a remote segment was encrypted by the broker's plugin. tiersnap does not have the key."""


# Errors of a cluster.


class BrokerUnavailableError(TransientError):
    """Raised when no broker answers, or when the broker responsible for the request is unavailable."""


class ClusterRefusedError(UsageError):
    """Raised when a broker will always refuse a request: not authorized, not supported, or an invalid config."""


class TopicRefusedError(ClusterRefusedError):
    """Raised when a cluster refuses to create a topic for tiersnap: not authorized, or an unknown config."""


class MetadataTopicAbsentError(UsageError):
    """Raised when the cluster has no `__remote_log_metadata`.

    tiersnap neither creates the topic nor lets brokers create it.
    """


class MetadataTopicCompactedError(GateError):
    """Raised when `__remote_log_metadata` is compacted.

    Brokers then refuse our records, which have no key (KIP-1266).
    """


class DeliveryFailedError(TransientError):
    """Raised when brokers did not acknowledge all records. The next run writes the missing records."""


class UnknownTopicError(GateError):
    """Raised when the cluster lacks the topic or the partition, or has a topic of that name with another id."""


class TieringOffError(GateError):
    """Raised when the topic is not tiered: `remote.storage.enable` is false, or the topic is compacted."""


class CopyingOffError(GateError):
    """Raised when another user disabled copying of a topic.

    Also raised when copying is disabled and retention is limited. Brokers could then delete published segments.
    """


class SettingsAsideError(GateError):
    """Raised when topic configs that tiersnap overrode cannot be restored.

    The saved values are missing or doubtful, or a broker refuses them.
    """


class CopyingOnError(GateError):
    """Raised when copying is enabled. A running copy task ignores published segments and copies them again."""


class SegmentHoleError(GateError):
    """Raised when remote storage lacks offsets below a segment. Readers and the copy task would skip these offsets."""


class LeaderEpochLineageError(GateError):
    """Raised when a segment has a leader epoch that the partition lacks. Brokers would copy the segment again."""


class LostCopyError(CorruptDataError):
    """Raised when brokers treat offsets as tiered, but remote storage lacks complete segments with these offsets."""


class HiddenOffsetsError(GateError):
    """Raised when a new segment would hide offsets that brokers can now read from a segment of another lineage."""


class NotDeletedError(GateError):
    """Raised when tiersnap keeps a remote segment, because no segment that is proven right contains its offsets."""


class PlaintextRefusedError(GateError):
    """Raised when tiersnap would upload plain text beside segments that the plugin encrypted.

    The message names the manifest of an encrypted segment.
    """


class WrongPlaceError(GateError):
    """Raised when brokers use another remote location than the given one. The message names both locations."""


class UnprovenPlaceError(GateError):
    """Raised when no evidence proves that brokers read the given remote location."""


class UnprovenLogError(GateError):
    """Raised when nothing proves that a local log equals the leader's log.

    Segments of this log must not be published.
    """


class CopyingSwitchedOnError(UnfinishedError):
    """Reported when another user enabled copying during a publication. Copy tasks may then upload segments twice."""


class StillStuckError(TiersnapError):
    """Raised when the copy task still fails after tiersnap disabled copying and published the segments."""

    exit_code = ExitCode.PARTIAL


# Errors of a restore.


class MissingMetaPropertiesError(UsageError):
    """Raised when a log directory has no meta.properties. No broker would start with this directory."""


class UnknownClusterError(UsageError):
    """Raised when the cluster that wrote the segments is unknown."""


class OtherLayoutError(GateError):
    """Raised when the remote location has complete segments in another layout than the layout of the command."""


class WrongClusterError(GateError):
    """Raised when a log directory belongs to another cluster than the given one. No option overrides this check."""


class OtherClusterError(GateError):
    """Raised when a restore into another cluster lacks the option --producer-state or --as-topic-id."""


class FolderDiffersError(GateError):
    """Raised when the folder of a partition exists and differs from the folder to restore.

    `restore` never overwrites files.
    """


class UnknownToClusterError(GateError):
    """Raised when the cluster has no topic with the topic id of the segments."""


class UnpublishedError(GateError):
    """Raised when a restored log needs segments that have no record in `__remote_log_metadata`."""


class NotRebuiltError(GateError):
    """Raised when tiersnap cannot rebuild a missing or wrong remote segment. The message contains the reason."""


class DeletedByClusterError(GateError):
    """Raised when the cluster has deleted the segments that tiersnap would restore or mend."""
