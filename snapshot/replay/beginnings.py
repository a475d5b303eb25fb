"""What came before the files of a host's logs, asked of remote storage log by log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tiersnap.snapshot.errors import ExitCode, RemoteStorageError, TransientError
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.never_tiered import never_tiered_reason
from tiersnap.snapshot.replay.partition_replay import NOT_LOOKED, Beginning

FindBeginning = Callable[[Partition], Beginning]


@dataclass
class Beginnings:
    """Asks of each log that may go back further than its files; once remote storage does not answer, of none.

    Attributes:
        find: asks remote storage; None to ask nothing.
        unknown: why remote storage does not say what came before a log's files, by partition.
        away: why remote storage is asked no more, "" while it answers.
        may_pass: of `unknown` some may be known when this is run again.
    """

    find: FindBeginning | None = None
    unknown: dict[str, str] = field(default_factory=dict)
    away: str = ""
    may_pass: bool = False

    def of(self, partition: Partition) -> Beginning:
        """Return what is known of a log before its first file."""
        if self.find is None or not partition.may_begin_in_remote_storage or never_tiered_reason(partition):
            return NOT_LOOKED
        found = self._ask(self.find, partition)
        if found.why and found.copy is None:
            self.unknown[partition.name] = found.why
        self.may_pass |= found.may_pass
        return found

    def _ask(self, find: FindBeginning, partition: Partition) -> Beginning:
        if not self.away:
            try:
                return find(partition)
            except (TransientError, RemoteStorageError) as error:
                self.away = error.message
        return Beginning(True, why=self.away, may_pass=True)

    @property
    def exit_code(self) -> ExitCode:
        """3 where it may be known later, 4 where remote storage does not tell it, 0 otherwise."""
        if self.may_pass:
            return ExitCode.TRANSIENT
        return ExitCode.GATE_REFUSED if self.unknown else ExitCode.OK
