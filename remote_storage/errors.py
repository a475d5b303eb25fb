"""Errors of remote storage that the core has no use for."""

from __future__ import annotations

from tiersnap.snapshot.errors import (
    CorruptDataError,
    GateError,
    RemoteStorageError,
    TiersnapError,
    TransientError,
    UsageError,
)


class ObjectNotFoundError(RemoteStorageError):
    """Raised when a key that must be there is not; names the key and the store."""


class ObjectChangedError(TransientError):
    """Raised when an object that was to be replaced is not the one that was read: another writer was faster."""


class LeaseLostError(TransientError):
    """Raised when another run has taken over a warehouse: this one was not heard of for too long."""


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


class SnapshotChangedError(TransientError):
    """Raised when a producer snapshot is not the one that was computed or compared; names its offset and place."""


class SnapshotVanishedError(TransientError):
    """Raised when a producer snapshot that was recorded is gone; whoever computed it writes it again."""


class MissingTailError(GateError):
    """Raised when remote storage has newer segments of a log than those that can be restored."""


class EncryptedSegmentError(RemoteStorageError):
    """Raised when a segment was encrypted by the plugin, whose key tiersnap does not have."""
