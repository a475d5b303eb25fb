"""What is said of leftovers: objects, files and uploads that ended attempts and killed processes left."""

from __future__ import annotations

from tiersnap.jobs.output import Output
from tiersnap.remote_storage.retire.store_leftovers import SweptStore
from tiersnap.snapshot.units import count_of


def by_kind(objects: int, swept: SweptStore) -> dict[str, int]:
    """Counts by name, those that are not 0; `objects` are those of segments."""
    counts = {"objects": objects, "probes": swept.probes, "files": swept.files, "uploads": swept.uploads}
    return {name: count for name, count in counts.items() if count}


def tell_leftovers(output: Output, objects: int, swept: SweptStore) -> None:
    """Say what was removed; nothing where nothing was."""
    named = [count_of(objects, "object")] if objects else []
    said = ", ".join([*named, *filter(None, [str(swept)])])
    if said:
        output.talk(f"removed what ended attempts and killed processes had left: {said}")
