"""`tiersnap collect` as tests call it, and what a reader sees of a collected folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from tiersnap.jobs.pipeline.decoding import WANTED, DecodeSegments
from tiersnap.remote_storage.collect.collect import Collected, Collection
from tiersnap.remote_storage.collect.folder import CollectedFolder
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.collected.listing import Listing
from tiersnap.snapshot.collected.marker import LISTING, MARKER
from tiersnap.snapshot.collected.source import open_collected
from tiersnap.snapshot.log.log_dir import open_log_dir, read_properties
from tiersnap.snapshot.tables.listed import LISTED_ROWS

Row = dict[str, Any]


def collect(
    log_dir: Path,
    to: Path,
    *,
    store: ObjectStore | None = None,
    with_batches: bool = False,
    now: int = 0,
    apply: bool = True,
    folders: list[str] | None = None,
) -> list[Collected]:
    """One collection; all that it did, or found to do."""
    opened = open_log_dir(str(log_dir))
    collection = Collection(
        CollectedFolder(store or DirectoryStore(to)),
        str(log_dir),
        opened,
        read_properties(opened.filesystem, opened.path),
        with_batches,
        now,
        apply,
    )
    return list(collection.partitions(list(opened.folders) if folders is None else folders))


def listed(to: Path) -> list[Row]:
    """Rows of LISTED as a run lists them."""
    source = open_collected(str(to))
    assert source is not None
    return LISTED_ROWS.batch(source.listed(folder, {})[0] for folder in source.folders).to_pylist()


def seen(to: Path) -> list[Row]:
    """All that a reader sees, without the names of objects: rows of LISTED, the decodes and the bytes of snapshots."""
    found = []
    for row in listed(to):
        folder = to / f"{row['topic']}-{row['partition']}"
        batch = pa.RecordBatch.from_pylist([{**row, **segment} for segment in row["segments"]], schema=WANTED)
        decodes = [each for rows in DecodeSegments(True, 1)(iter([batch])) for each in rows.to_pylist()]
        files = [(folder / file["object"]).read_bytes() for file in row["snapshots"]]
        for each in (*row["segments"], *row["snapshots"]):
            each.pop("decode", None)
            each.pop("object", None)
        row.pop("fingerprint")
        found.append({**row, "log_dir": "", "decodes": [{**each, "log_dir": ""} for each in decodes], "files": files})
    return found


def _batches(path: Path) -> set[str]:
    decodes = Listing.decode(path.read_bytes(), name=str(path)).decodes.values()
    return {decode.batches for decode in decodes if decode.batches is not None}


def objects(to: Path) -> set[str]:
    """Keys of all objects."""
    names = {str(path.relative_to(to)) for path in to.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith(".tiersnap-unfinished/")}


def needed(to: Path) -> set[str]:
    """Keys of the objects that a reader needs."""
    keys = {MARKER}
    for row in listed(to):
        folder = f"{row['topic']}-{row['partition']}"
        keys.add(f"{folder}/{LISTING}")
        keys |= {f"{folder}/{segment['decode']}" for segment in row["segments"]}
        keys |= {f"{folder}/{name}" for name in _batches(to / folder / LISTING)}
        keys |= {f"{folder}/{file['object']}" for file in row["snapshots"]}
    return keys
