"""The errors that tiersnap raises, with their exit codes and hints.

An error names the failure, the object, and the next step (`hint`). Expected conditions of a log (a bad CRC, a partial
tail, a missing snapshot) are not errors: they are findings and verdicts, because a fleet always has some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.masking import masked


class ExitCode(IntEnum):
    """The exit code of a tiersnap process; `tiersnap runbook CODE` explains it."""

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
    """Root of all errors raised on purpose."""

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
    """Raised when a directory exists but holds no Kafka partition."""


class MissingExtraError(UsageError):
    """Raised when a command needs an optional dependency that is not installed."""


class LogDirInUseError(UsageError):
    """Raised when a broker holds the `.lock` of a directory that is about to be written."""


class LogDirAsTargetError(UsageError):
    """Raised when something was to be put into a broker's log directory, which dies of files it does not know."""


class TransientError(TiersnapError):
    """Raised when the same command may succeed later: timeouts, throttling, a server that went away."""

    exit_code = ExitCode.TRANSIENT

    def __init__(self, message: str, *, hint: str = RUN_AGAIN, **attrs: object) -> None:
        super().__init__(message, hint=hint, **attrs)


class NoSpaceError(TransientError):
    """Raised when a disk is full: the same command may succeed once some is freed."""


class RemoteStorageError(TiersnapError):
    """Raised when remote storage refuses for good: no such bucket, access denied, a wrong checksum."""

    exit_code = ExitCode.USAGE


class ObjectExistsError(RemoteStorageError):
    """Raised when a put-if-absent met an object with other content; tiersnap never overwrites unasked."""

    exit_code = ExitCode.GATE_REFUSED


class GateError(TiersnapError):
    """Raised when a segment lacks something that KIP-405 demands before it may be tiered."""

    exit_code = ExitCode.GATE_REFUSED


class MissingProducerSnapshotError(GateError):
    """Raised when a bundle is built without a trusted snapshot at the next segment's base offset."""


class UnknownStateError(GateError):
    """Raised when remote storage cannot supply the producer state of a log that begins there."""


class UnknownTransactionsError(GateError):
    """Raised when a segment before a scan window ends inside a transaction that its snapshot lacks."""


class IncompleteBundleError(GateError):
    """Raised when a bundle lacks its log, an index or leader epochs, and they cannot be rebuilt."""


class UnfinishedError(TiersnapError):
    """Raised or reported when a part of the work failed and a retry would fail, too; the rest was done."""

    exit_code = ExitCode.PARTIAL


def failure(
    message: str, *, is_transient: bool, error_type: str | None = None, hint: str | None = None
) -> TiersnapError:
    """Return the error for a failed part of the work, from the record of a table or a task.

    Args:
        error_type: recorded name of its class, which preserves damage and refusals; None if none was recorded.
        hint: recorded hint.
    """
    if is_transient:
        return TransientError(message, hint=hint or "run the same command again")
    kind = next((each for each in FAILURES.values() if error_type in names_of(each)), UnfinishedError)
    return kind(message, hint=hint or f"tiersnap runbook {kind.exit_code.value}")


@dataclass(frozen=True, slots=True)
class RecordedError:
    """An error as a table or a task keeps it; `error_type` is the name of its class."""

    error: Annotated[str, Meta(description="message of the error; null without one")]
    is_transient: Annotated[bool, Meta(description="whether the same run again may succeed")] = False
    error_type: Annotated[str | None, Meta(description="name of the error's class")] = None
    hint: Annotated[str | None, Meta(description="next command or step")] = None

    @classmethod
    def of(cls, error: TiersnapError, message: str) -> RecordedError:
        """Return the recorded form of an error, with a message that names the place."""
        return cls(masked(message), isinstance(error, TransientError), type(error).__name__, error.hint)

    @property
    def raised(self) -> TiersnapError:
        """Return the recorded error as an exception; see `failure`."""
        return failure(self.error, is_transient=self.is_transient, error_type=self.error_type, hint=self.hint)


# The attributes of an error that a table or a task records with its message: arguments of `failure`.
RECORDED = ("is_transient", "error_type", "hint")


class CorruptDataError(TiersnapError):
    """Raised when bytes do not have the format that their file name implies."""

    exit_code = ExitCode.DATA_CORRUPT


# Error classes by the names under which a table counts them; see `failure`.
FAILURES: dict[str, type[TiersnapError]] = {
    "damaged": CorruptDataError,
    "refused": GateError,
    "misconfigured": UsageError,
}


def names_of(kind: type[TiersnapError]) -> frozenset[str]:
    """Return the names of the errors with the exit code of `kind`, of all modules that are imported."""
    return frozenset(each.__name__ for each in _classes() if each.exit_code is kind.exit_code)


def error_named(name: str) -> type[TiersnapError] | None:
    """Return the error with this name, of all modules that are imported; None if there is none."""
    return next((each for each in _classes() if each.__name__ == name), None)


def _classes() -> Iterator[type[TiersnapError]]:
    unseen = [TiersnapError]
    while unseen:
        each = unseen.pop()
        unseen.extend(each.__subclasses__())
        yield each


class CorruptSnapshotError(CorruptDataError):
    """Raised when a `.snapshot` file cannot be read; a broker answers the same with CorruptSnapshotException."""


class CorruptCheckpointError(CorruptDataError):
    """Raised when a checkpoint or metadata text file does not follow its format."""


class CorruptRecordError(CorruptDataError):
    """Raised when records of a batch, or their compression, contradict the batch's header."""


class CorruptTransactionStateError(CorruptDataError):
    """Raised when a record of `__transaction_state` does not follow its schema."""


class UnknownVersionError(CorruptDataError):
    """Raised when a record names a version that no known schema has: a newer broker wrote it."""


class NewerFormatError(CorruptDataError):
    """Raised when a newer tiersnap wrote an object in remote storage: it is not damaged, and must not be deleted."""

    exit_code = ExitCode.USAGE


class CorruptIndexError(CorruptDataError):
    """Raised when an offset, time or transaction index fails the broker's sanity rules."""
