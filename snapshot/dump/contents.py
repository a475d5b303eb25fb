"""The base class of all dumps, with their options and findings."""

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
    """Options of a dump."""

    max_bytes: int | None = None  # limit for a log file; None for the whole file
    count: int | None = None  # limit of entries per file; None for all entries
    check_crc: bool = True  # whether to verify the checksums of batches

    def first(self, rows: np.ndarray) -> np.ndarray:
        """Return the first `self.count` rows, or all rows if `self.count` is None."""
        return rows[: self.count]


@dataclass
class Judgement:
    """Damage and remarks that a dump found. It is complete once all entries were printed."""

    damage: list[Finding | TiersnapError] = field(default_factory=list)  # at most MOST_DAMAGE_KEPT, in file order
    further: int = 0  # number of findings that are not in `damage`
    notes: list[str] = field(default_factory=list)  # remarks about normal states

    @property
    def room(self) -> int:
        """Return how many more findings fit into `damage`."""
        return MOST_DAMAGE_KEPT - len(self.damage)

    def add(self, damage: Finding | TiersnapError) -> None:
        """Append a finding to `damage`. If `damage` is full, count the finding in `further`."""
        if self.room:
            self.damage.append(damage)
        else:
            self.further += 1


def unreadable(file: StorageFile, error: OSError) -> Finding:
    """Return a finding for a file that cannot be read."""
    return Finding(FindingKind.UNREADABLE_FILE, file.path, -1, error.strerror or str(error))


class Contents(ABC):
    """The contents of one file. Call `columns` or `kafka_text` once; after that, read `judgement`."""

    def __init__(self, file: StorageFile, options: Options) -> None:
        self.file = file
        self.judgement = Judgement()
        self._options = options

    @abstractmethod
    def columns(self) -> Iterator[Sequence[Column]]:
        """Yield the entries in parts. All parts have the same columns. A file without entries gives one empty part."""

    @abstractmethod
    def kafka_text(self) -> Iterator[Text]:
        """Yield the output of kafka-dump-log without its first line."""
