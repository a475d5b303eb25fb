"""The protocol of every kind of dump."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiersnap.snapshot.dump.columns import Column
from tiersnap.snapshot.dump.files import StorageFile
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.log.findings import Finding, FindingKind

MOST_DAMAGE_KEPT = 10
Text = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Options:
    """Limits of a dump."""

    max_bytes: int | None = None  # of a log file, None for all
    count: int | None = None  # entries of each file, None for all
    check_crc: bool = True  # verify checksums of batches

    def first(self, rows: np.ndarray) -> np.ndarray:
        """Return the first `count` rows."""
        return rows[: self.count]


@dataclass
class Judgement:
    """The findings about contents, collected while they are printed."""

    damage: list[Finding | TiersnapError] = field(default_factory=list)  # the first findings, in the file's order
    further: int = 0  # number of further findings
    notes: list[str] = field(default_factory=list)  # remarks that are no damage

    @property
    def room(self) -> int:
        """Return the number of further findings that can be kept."""
        return MOST_DAMAGE_KEPT - len(self.damage)

    def add(self, damage: Finding | TiersnapError) -> None:
        """Keep a finding, or count it if there are too many."""
        if self.room:
            self.damage.append(damage)
        else:
            self.further += 1


def unreadable(file: StorageFile, error: OSError) -> Finding:
    """Return the finding about a file that cannot be read."""
    return Finding(FindingKind.UNREADABLE_FILE, file.path, -1, error.strerror or str(error))


class Contents(ABC):
    """One file. Read it once, as columns or as Kafka's text; then read `judgement`."""

    def __init__(self, file: StorageFile, options: Options) -> None:
        self.file = file
        self.judgement = Judgement()
        self._options = options

    @abstractmethod
    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield the entries in parts, each with the same columns; a file without entries gives one empty part."""

    @abstractmethod
    def kafka_text(self) -> Iterator[Text]:
        """Yield the text of kafka-dump-log after its first line."""
