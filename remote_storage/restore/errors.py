"""Why a partition is not restored."""

from __future__ import annotations

from tiersnap.snapshot.errors import GateError, UsageError


class MissingMetaPropertiesError(UsageError):
    """Raised when a log directory has no meta.properties: no broker would start on it."""


class UnknownClusterError(UsageError):
    """Raised when nobody said which cluster the segments come from."""


class OtherClusterError(GateError):
    """Raised when segments would go to another cluster and nobody said what becomes of their producer state or id."""


class FolderDiffersError(GateError):
    """Raised when a partition's folder is there and is not what restore would write; nothing is overwritten."""


class UnknownToClusterError(GateError):
    """Raised when the cluster that was asked knows nothing of the segments."""


class DeletedByClusterError(GateError):
    """Raised when the cluster that was asked has deleted the segments."""
