"""Fetch the segment files of a restore, check them against the store's checksums, and cut overlapping segments."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from threading import Event

import numpy as np

from tiersnap.remote_storage.remote_log.segment_bytes import fetch_log
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
    """Write the segment file of a piece as `name`. If the process is killed, `name` is complete or does not exist.

    Raises:
        CorruptDataError: see `fetch_log`; or the start or end of the piece is inside a batch.
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
    """Write the batches of the piece to `target`. `source` is the complete segment file."""
    begin, end = _positions(folder.path / source, piece)
    with (folder.path / source).open("rb") as file, folder.new_file(target) as out:
        file.seek(begin)
        left = end - begin
        while left and (data := file.read(min(left, _COPY_BYTES))):
            out.write(data)
            left -= len(data)


def _positions(path: Path, piece: LogPiece) -> tuple[int, int]:
    """Return the byte range [begin, end) of the piece in the complete segment file.

    Raises:
        CorruptDataError: the start or end of the piece is inside a batch, a batch is damaged, or the piece has no
            batch.
    """
    copy = piece.copy
    scan = SegmentScan(
        LOCAL, str(path), base_offset=copy.start_offset, next_base_offset=copy.end_offset, check_crc=False
    )
    begin = end = None
    for rows in scan:
        base = rows["base_offset"]
        _check_cuts(rows, piece)
        begin = _first_position(rows[(base >= piece.start_offset) & (base < piece.end_offset)], begin)
        end = _first_position(rows[base >= piece.end_offset], end)
    if begin is None or scan.end.finding is not None or scan.end.legacy_count:
        raise CorruptDataError(
            f"{copy.metadata.id.topic_id_partition}: the offsets [{piece.start_offset}, {piece.end_offset}) "
            f"cannot be cut out of segment {copy.segment_id}: "
            f"{scan.end.finding or 'the range has no batch, or the file has entries of magic 0 or 1'}",
            hint="restore without this segment: --without SEGMENT_ID",
        )
    if end is None:
        end = scan.end.valid_bytes
    return begin, end


def _first_position(rows: np.ndarray, known: int | None) -> int | None:
    """Return `known`, or the byte position of the first row if `known` is None."""
    if known is None and rows.size:
        return int(rows["position"][0])
    return known


def _check_cuts(rows: np.ndarray, piece: LogPiece) -> None:
    """Raise CorruptDataError if the start or end of the piece is inside a batch."""
    base, last = rows["base_offset"], rows["base_offset"] + rows["last_offset_delta"]
    across = np.zeros(rows.shape, dtype=bool)
    for offset in (piece.start_offset, piece.end_offset):
        across |= (base < offset) & (last >= offset)
    if not across.any():
        return
    of, batch = piece.copy.metadata.id.topic_id_partition, rows[across][0]
    first = int(batch["base_offset"])
    ends = f"--until {first + int(batch['last_offset_delta']) + 1} --partition {of}"
    if first > piece.start_offset:
        ends += f", or {first}"
    raise CorruptDataError(
        f"{of}: segment {piece.copy.segment_id}: the batch at offset {first} crosses the start or end of the "
        f"offsets [{piece.start_offset}, {piece.end_offset})",
        hint=f"a log must end between two batches: {ends}. If you gave no --until, the segments come from different "
        "logs; leave out the segment of the wrong log: --without SEGMENT_ID",
    )


def same_content(store: ObjectStore, piece: LogPiece, path: Path, scratch: Path) -> bool:
    """Return whether the file `path` has the bytes that `fetch_piece` would write.

    Args:
        scratch: an existing folder for a fetched file. It is emptied.
    """
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
