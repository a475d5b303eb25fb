"""The output row of `tiersnap maintain tables`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from tiersnap.snapshot.units import human_bytes


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """A table of the warehouse, with counts of its rows and files. `--apply` deletes its superseded rows."""

    COLUMNS: ClassVar = ("table", "rows", "superseded", "files", "size")
    table: str
    rows: Annotated[int, Meta(description="rows before the maintenance")]
    superseded: Annotated[int, Meta(description="rows that no reader of the table needs")]
    files: Annotated[int, Meta(description="files of the newest table version, after the maintenance")]
    size_bytes: Annotated[int, Meta(description="bytes of the files that `files` counts")]

    @property
    def size(self) -> str:
        """Return the bytes with a unit."""
        return human_bytes(self.size_bytes)
