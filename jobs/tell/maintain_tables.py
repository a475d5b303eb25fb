"""What `maintain tables` shows: a row a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiersnap.jobs.output import Output
from tiersnap.snapshot.units import human_bytes

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.maintenance import Maintained

_COLUMNS = ("table", "rows", "superseded", "files", "size")


def show(output: Output, warehouse: str, done: Sequence[Maintained], *, applied: bool) -> None:
    """The result; `warehouse` is as it was given."""
    rows = [
        {
            "table": each.table,
            "rows": each.rows,
            "superseded": each.superseded,
            "files": each.files,
            "bytes": each.size,
            "size": human_bytes(each.size),
        }
        for each in done
    ]
    output.row_dicts("maintain tables", rows, columns=_COLUMNS)
    if not done:
        output.talk(f"{warehouse}: no tables yet: tiersnap run fills them")
    elif not applied:
        output.talk("nothing was deleted: give --apply")
