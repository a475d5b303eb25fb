"""One remote segment, or one of its indexes, verified and put into a file or a stream."""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.inventory.remote_inventory import RemoteInventory
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment, read_indexes, read_lineage
from tiersnap.remote_storage.inventory.segment_bytes import fetch_log
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.restore.own_folder import PART
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.atomic_file import cannot_write, sync_directory, write_atomically
from tiersnap.snapshot.errors import CorruptDataError, ObjectExistsError, UsageError
from tiersnap.snapshot.formats import indexes, snapshot_file, transaction_index
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.segment_scan import SegmentScan

_log = logging.getLogger(__name__)


def copies_with(
    store: ObjectStore, remote: RemoteInventory, offset: int, segment_id: str | None = None
) -> list[RemoteSegment]:
    """The complete copies that hold an offset, at least one; only `segment_id` where one is given.

    Raises:
        CorruptDataError: there is none, and one that may hold it is damaged or lost an object.
        ObjectNotFoundError: there is none.
    """
    wanted = [copy for copy in remote.segments if segment_id in (None, copy.segment_id)]
    copies = [copy for copy in wanted if copy.start_offset <= offset < copy.end_offset]
    if copies:
        return copies
    behind = max((copy.end_offset for copy in wanted if copy.start_offset <= offset), default=0)
    near = [each for each in remote.leftovers if segment_id in (None, each.segment_id)]
    near = [each for each in near if behind <= each.start_offset <= offset]
    error = CorruptDataError if any(each.is_visible for each in near) else ObjectNotFoundError
    raise error(
        f"{store.uri}: no complete segment of {remote.partition} holds offset {offset}"
        + "".join(f": {each.problem}" for each in near[-1:]),
        hint="tiersnap restore --segments, without --apply, lists what there is",
    )


def latest(copies: Iterable[RemoteSegment]) -> RemoteSegment:
    """The copy of the newest leader epoch, then the newest event."""
    return max(copies, key=lambda copy: (copy.leader_epochs[-1][0], *copy.attempt))


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A segment's log where `index` is None, else that index."""

    store: ObjectStore
    copy: RemoteSegment
    index: IndexType | None

    def to_stream(self, stream: BinaryIO) -> None:
        """Write the bytes once all of them are verified.

        Raises:
            ObjectNotFoundError: a transaction index, of a segment that has none.
            CorruptDataError: the bytes are not what they must be.
            UsageError, NoSpaceError: no temporary file can be written; see `cannot_write`.
            OSError: of the stream.
        """
        if self.index is not None:
            stream.write(verified_index(self.store, self.copy, self.index))
            return
        with contextlib.ExitStack() as stack:
            path = Path("temporary files")
            try:
                scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="tiersnap-"))
                path = Path(scratch) / f"{self.copy.start_offset:020d}.log"
                _fetch_verified(self.store, self.copy, path)
            except OSError as error:
                raise cannot_write(path, error) from error
            shutil.copyfileobj(stack.enter_context(path.open("rb")), stream)

    def to_file(self, path: Path, *, replace: bool) -> bool:
        """Write the file, whole or not at all; False when it was there with the same content.

        Raises:
            UsageError: its directory is not there, or something that is no file lies in its place.
            ObjectExistsError: it is there with other content, and `replace` is not given.
            ObjectNotFoundError, CorruptDataError: as `to_stream`.
            UsageError, TransientError: it cannot be written; see `cannot_write`.
        """
        try:
            return self._to_file(path, replace=replace)
        except OSError as error:
            raise cannot_write(path, error) from error

    def _to_file(self, path: Path, *, replace: bool) -> bool:
        if not path.parent.is_dir():
            raise UsageError(f"--out {path}: no such directory")
        if path.exists() and not path.is_file():
            raise UsageError(f"--out {path}: no regular file", hint="give another name, or --out - and a pipe")
        if self.index is None:
            return self._log_to_file(path, replace=replace)
        data = verified_index(self.store, self.copy, self.index)
        if path.exists() and path.read_bytes() == data:
            return False
        if not write_atomically(path, data, replace=replace):
            raise _there(path)
        return True

    def _log_to_file(self, path: Path, *, replace: bool) -> bool:
        parts = _parts_of(path)
        for killed in path.parent.glob(f"{parts}*{PART}"):
            _remove(killed)
        part = path.with_name(f"{parts}{secrets.token_hex(8)}{PART}")
        try:
            _fetch_verified(self.store, self.copy, part)
            if path.exists() and not replace:
                if filecmp.cmp(path, part, shallow=False):
                    return False
                raise _there(path)
            part.replace(path)
            sync_directory(path.parent)
            _log.info("wrote %s", path)
        finally:
            _remove(part)
        return True


def _parts_of(path: Path) -> str:
    """Return the prefix of unfinished files for this target: short, however long its own name is."""
    return f".tiersnap-fetch.{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}."


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _there(path: Path) -> ObjectExistsError:
    return ObjectExistsError(f"{path} is there with other content", hint="give another name, or --replace")


def _fetch_verified(store: ObjectStore, copy: RemoteSegment, path: Path) -> None:
    with path.open("xb") as file:
        fetch_log(store, copy, file)
        file.flush()
        os.fsync(file.fileno())
    scan = SegmentScan(
        LOCAL, str(path), base_offset=copy.start_offset, next_base_offset=copy.end_offset, keep_rows=False
    )
    for _ in scan:
        pass
    if scan.end.finding is not None:
        path.unlink()
        finding = scan.end.finding
        raise CorruptDataError(
            f"{store.uri}{copy.layout.log_key(copy.metadata)}: {finding.kind} at byte {max(finding.position, 0)}: "
            f"{finding.message}",
            hint="another copy, if there is one: --segment-id ID",
        )


def verified_index(store: ObjectStore, copy: RemoteSegment, index: IndexType) -> bytes:
    """Bytes of one index of a copy, in the form that they must have.

    Raises:
        ObjectNotFoundError: a transaction index, of a segment that has none.
        CorruptDataError: the bytes are not such an index.
    """
    data = read_indexes(store, copy)[index]
    name = f"{store.uri}{copy.layout.log_key(copy.metadata)}: {index}"
    if data is None:
        raise ObjectNotFoundError(f"{name}: the segment has none: no transaction was aborted in it")
    if index is IndexType.OFFSET:
        indexes.decode_offset_index(data, base_offset=copy.start_offset, name=name)
    elif index is IndexType.TIMESTAMP:
        indexes.decode_time_index(data, base_offset=copy.start_offset, name=name)
    elif index is IndexType.TRANSACTION:
        transaction_index.decode(data, base_offset=copy.start_offset, name=name)
    elif index is IndexType.PRODUCER_SNAPSHOT:
        snapshot_file.decode(data, name=name)
    else:
        read_lineage(store, copy)
    return data
