"""Errors of remote storage that the core has no use for."""

from __future__ import annotations

from tiersnap.snapshot.errors import GateError, RemoteStorageError, TiersnapError, UsageError


class ObjectNotFoundError(RemoteStorageError):
    """Raised when a key that must be there is not; names the key and the store."""


class InvalidKeyError(UsageError):
    """Raised when a text is no key of this project's grammar, or a part of a key has a form Kafka does not allow."""


class IllegalStateTransitionError(TiersnapError):
    """Raised when remote segment metadata would leave KIP-405's state machine."""


class RemoteGapError(GateError):
    """Raised when offsets between two remote segments are in no complete copy; names them."""


class MissingTailError(GateError):
    """Raised when remote storage has newer segments of a log than those that can be restored."""


class EncryptedSegmentError(RemoteStorageError):
    """Raised when a segment was encrypted by the plugin, whose key tiersnap does not have."""
