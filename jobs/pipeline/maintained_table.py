"""A row of `maintain tables`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from tiersnap.snapshot.units import human_bytes


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """A table of `maintain tables`, with the rows to remove, or removed."""

    COLUMNS: ClassVar = ("table", "rows", "superseded", "files", "size")
    table: str
    rows: Annotated[int, Meta(description="before the work")]
    superseded: Annotated[int, Meta(description="rows of these that no reader asks for")]
    files: Annotated[int, Meta(description="of the newest version, after the work")]
    size_bytes: Annotated[int, Meta(description="of these files")]

    @property
    def size(self) -> str:
        """Return the bytes in words."""
        return human_bytes(self.size_bytes)
