"""The segment files of a restore: fetched, checked against the store's checksum, cut where copies overlap."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from threading import Event

from tiersnap.remote_storage.inventory.segment_bytes import fetch_log
from tiersnap.remote_storage.restore.own_folder import PART, OwnFolder
from tiersnap.remote_storage.restore.segment_chain import LogPiece
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.crc32c import crc32c_of_file
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.segment_scan import SegmentScan

_log = logging.getLogger(__name__)

_COPY_BYTES = 1 << 20


def fetch_piece(store: ObjectStore, piece: LogPiece, folder: OwnFolder, name: str, stop: Event | None = None) -> None:
    """Write a piece's segment file as `name`: whole or not at all, whatever kills the process.

    Raises:
        CorruptDataError: as `fetch_log`; or a batch lies across an end of the piece.
    """
    part = name + PART
    with folder.new_file(part) as file:
        fetch_log(store, piece.copy, file, stop)
    if not piece.is_whole:
        cut = f"{name}.cut{PART}"
        _cut(folder, part, piece, cut)
        folder.remove(part)
        part = cut
    folder.rename(part, name)
    _log.debug("fetched %s of segment %s", folder.path / name, piece.copy.segment_id)


def _cut(folder: OwnFolder, source: str, piece: LogPiece, target: str) -> None:
    copy = piece.copy
    of = copy.metadata.id.topic_id_partition
    scan = SegmentScan(
        LOCAL,
        str(folder.path / source),
        base_offset=copy.start_offset,
        next_base_offset=copy.end_offset,
        check_crc=False,
    )
    begin = end = None
    for rows in scan:
        for row in rows[(rows["base_offset"] >= piece.start_offset) & (rows["base_offset"] < piece.end_offset)][:1]:
            begin = int(row["position"]) if begin is None else begin
        for row in rows[rows["base_offset"] >= piece.end_offset][:1]:
            end = int(row["position"]) if end is None else end
        last = rows["base_offset"] + rows["last_offset_delta"]
        across = rows[
            ((rows["base_offset"] < piece.start_offset) & (last >= piece.start_offset))
            | ((rows["base_offset"] < piece.end_offset) & (last >= piece.end_offset))
        ]
        if across.size:
            first = int(across["base_offset"][0])
            behind = first + int(across["last_offset_delta"][0]) + 1
            ends = f"--until {behind} --partition {of}"
            if first > piece.start_offset:
                ends += f", or {first}"
            raise CorruptDataError(
                f"{of}: segment {copy.segment_id}: the batch at {first} lies across [{piece.start_offset}, "
                f"{piece.end_offset})",
                hint=f"a log ends between batches: {ends}; without --until the copies are not of one log: leave one of "
                "them out with --without SEGMENT_ID",
            )
    if begin is None or scan.end.finding is not None or scan.end.legacy_count:
        raise CorruptDataError(
            f"{of}: segment {copy.segment_id}: [{piece.start_offset}, {piece.end_offset}) cannot be cut out: "
            f"{scan.end.finding or 'no batch of it is there, or entries of magic 0 or 1'}",
            hint="leave it out with --without SEGMENT_ID",
        )
    with (folder.path / source).open("rb") as file, folder.new_file(target) as out:
        file.seek(begin)
        left = (scan.end.valid_bytes if end is None else end) - begin
        while left and (data := file.read(min(left, _COPY_BYTES))):
            out.write(data)
            left -= len(data)


def same_content(store: ObjectStore, piece: LogPiece, path: Path, scratch: Path) -> bool:
    """Return whether `path` is what `fetch_piece` would write; `scratch` is an existing folder to write to."""
    key = piece.copy.layout.log_key(piece.copy.metadata)
    if piece.is_whole:
        if path.stat().st_size != piece.copy.metadata.segment_size:
            return False
        stored = store.head(key)
        if stored is not None and stored.crc32c is not None and piece.copy.chunks is None:
            return stored.crc32c == crc32c_of_file(path)
    other = scratch / path.name
    try:
        with OwnFolder(scratch) as folder:
            fetch_piece(store, piece, folder, path.name)
        return other.stat().st_size == path.stat().st_size and crc32c_of_file(other) == crc32c_of_file(path)
    finally:
        shutil.rmtree(scratch)
        scratch.mkdir()
