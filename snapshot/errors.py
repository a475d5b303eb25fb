"""The errors that tiersnap raises, with their exit codes and hints.

Each error has a message (object and failure) and a hint (the next step). A bad CRC, a partial tail or a missing
snapshot raises no error, because a large fleet always has some. Commands report such damage as findings or verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.masking import masked


class ExitCode(IntEnum):
    """The exit codes of tiersnap. `tiersnap runbook CODE` explains a code."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    TRANSIENT = 3
    GATE_REFUSED = 4
    DATA_CORRUPT = 5
    PARTIAL = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


RUN_AGAIN = "run the same command again: it continues"


class TiersnapError(Exception):
    """The base class of all errors that tiersnap raises on purpose."""

    exit_code = ExitCode.UNEXPECTED

    def __init__(self, message: str, *, hint: str = "", **attrs: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.attrs = attrs

    def __reduce__(self) -> tuple[object, ...]:
        # Spark and process pools pickle exceptions; keyword-only attributes would be lost by the default reduction.
        return _rebuild, (type(self), self.message, self.hint, self.attrs)

    def as_dict(self) -> dict[str, object]:
        """Return the error as data: type, message, hint and attributes."""
        return {"type": type(self).__name__, "message": self.message, "hint": self.hint, "attrs": self.attrs}


def _rebuild(cls: type[TiersnapError], message: str, hint: str, attrs: dict[str, object]) -> TiersnapError:
    return cls(message, hint=hint, **attrs)


class UsageError(TiersnapError):
    """Raised when an argument or a setting cannot be used as given."""

    exit_code = ExitCode.USAGE


class SourceNotFoundError(UsageError):
    """Raised when the named log directory, file or bucket does not exist."""


class NotALogDirError(UsageError):
    """Raised when a directory exists but contains no Kafka partition."""


class MissingExtraError(UsageError):
    """Raised when a command needs an optional dependency that is not installed."""


class LogDirInUseError(UsageError):
    """Raised when tiersnap would write to a log directory whose `.lock` a running broker holds."""


class LogDirAsTargetError(UsageError):
    """Raised when an output path is in a broker's log directory, where unknown files make a broker fail."""


class TransientError(TiersnapError):
    """Raised when the same command may succeed later, for example after a timeout, throttling or a lost connection."""

    exit_code = ExitCode.TRANSIENT

    def __init__(self, message: str, *, hint: str = RUN_AGAIN, **attrs: object) -> None:
        super().__init__(message, hint=hint, **attrs)


class NoSpaceError(TransientError):
    """Raised when a disk is full. Once disk space is free, the same command may succeed."""


class RemoteStorageError(TiersnapError):
    """Raised when remote storage refuses a request and a retry cannot help, for example because access is denied."""

    exit_code = ExitCode.USAGE


class ObjectExistsError(RemoteStorageError):
    """Raised when a conditional put finds an existing object with other content. tiersnap does not overwrite it."""

    exit_code = ExitCode.GATE_REFUSED


class GateError(TiersnapError):
    """Raised when a segment lacks a part that KIP-405 requires before it may be tiered."""

    exit_code = ExitCode.GATE_REFUSED


class MissingProducerSnapshotError(GateError):
    """Raised when a segment may not be uploaded: no trusted snapshot exists at the next segment's base offset."""


class UnknownStateError(GateError):
    """Raised when the producer state at a log's first local offset is needed, and remote storage cannot provide it."""


class UnknownTransactionsError(GateError):
    """Raised when a snapshot below the scan window lacks a transaction that is open at the snapshot's offset."""


class IncompleteBundleError(GateError):
    """Raised when an upload lacks the log file, an index or leader epochs of a segment, and cannot rebuild them."""


class UnfinishedError(TiersnapError):
    """Raised or reported when a part of the work failed and would fail again. The rest of the work is done."""

    exit_code = ExitCode.PARTIAL


def failure(
    message: str, *, is_transient: bool, error_type: str | None = None, hint: str | None = None
) -> TiersnapError:
    """Return the exception for an error that a table or a task has recorded.

    Args:
        is_transient: whether a retry may succeed; if so, return a TransientError.
        error_type: class name of the recorded error, or None. The returned error has the class in FAILURES whose exit
            code equals the recorded class's exit code. Without such a class, the returned error is an UnfinishedError.
        hint: recorded hint; None selects a default.
    """
    if is_transient:
        return TransientError(message, hint=hint or "run the same command again")
    kind = next((each for each in FAILURES.values() if error_type in names_of(each)), UnfinishedError)
    return kind(message, hint=hint or f"tiersnap runbook {kind.exit_code.value}")


@dataclass(frozen=True, slots=True)
class RecordedError:
    """An error in the form that tables and task results contain."""

    error: Annotated[str, Meta(description="message of the error; null if there is no error")]
    is_transient: Annotated[bool, Meta(description="whether the same command may succeed if it is run again")] = False
    error_type: Annotated[str | None, Meta(description="class of the error")] = None
    hint: Annotated[str | None, Meta(description="next command or step")] = None

    @classmethod
    def of(cls, error: TiersnapError, message: str) -> RecordedError:
        """Return the recorded form of `error`. `message` replaces the error's own message; secrets in it are masked."""
        return cls(masked(message), isinstance(error, TransientError), type(error).__name__, error.hint)

    @property
    def raised(self) -> TiersnapError:
        """Return the exception for this record; see `failure`."""
        return failure(self.error, is_transient=self.is_transient, error_type=self.error_type, hint=self.hint)


# Names of the attributes that tables record next to an error's message. They are arguments of `failure`.
RECORDED = ("is_transient", "error_type", "hint")


class CorruptDataError(TiersnapError):
    """Raised when bytes do not have the format that their file name implies."""

    exit_code = ExitCode.DATA_CORRUPT


# Error classes by the column that counts them in the table of runs; see `failure`.
FAILURES: dict[str, type[TiersnapError]] = {
    "damaged": CorruptDataError,
    "refused": GateError,
    "misconfigured": UsageError,
}


def names_of(kind: type[TiersnapError]) -> frozenset[str]:
    """Return the names of all imported error classes that have the exit code of `kind`."""
    return frozenset(each.__name__ for each in _classes() if each.exit_code is kind.exit_code)


def error_named(name: str) -> type[TiersnapError] | None:
    """Return the imported error class with this name, or None."""
    return next((each for each in _classes() if each.__name__ == name), None)


def _classes() -> Iterator[type[TiersnapError]]:
    unseen = [TiersnapError]
    while unseen:
        each = unseen.pop()
        unseen.extend(each.__subclasses__())
        yield each


class CorruptSnapshotError(CorruptDataError):
    """Raised when a `.snapshot` file is invalid. A broker raises CorruptSnapshotException for the same file."""


class CorruptCheckpointError(CorruptDataError):
    """Raised when a checkpoint or metadata text file does not follow its format."""


class CorruptRecordError(CorruptDataError):
    """Raised when records cannot be decompressed, or contradict the header of their batch."""


class CorruptTransactionStateError(CorruptDataError):
    """Raised when a record of `__transaction_state` does not follow its schema."""


class UnknownVersionError(CorruptDataError):
    """Raised when a newer broker wrote a record in a version that tiersnap cannot decode."""


class NewerFormatError(CorruptDataError):
    """Raised when a newer tiersnap wrote an object in remote storage. The object is intact; do not delete it."""

    exit_code = ExitCode.USAGE


class CorruptIndexError(CorruptDataError):
    """Raised when an offset, time or transaction index breaks a rule that a valid index satisfies."""
