"""Build the folder of a partition under a temporary name, and rename the folder when it is complete and synced.

The temporary name is `tiersnap-restore.<digest of the partition's name>.<random>`, each part with 16 hex digits. A
broker that starts after an interrupted restore stops with an error that names this folder, because no partition can
have such a name. Without the folder, the broker would create an empty partition at offset 0. A marker in the folder
contains a digest of the plan. If the same restore runs again, it continues in this folder: it checks every file again,
and fetches only incomplete segment files.

If a folder already exists under the final name, restore only compares its files, and never writes to it.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from tiersnap.remote_storage.errors import FolderDiffersError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.remote_log.remote_segment import read_indexes
from tiersnap.remote_storage.restore.own_folder import MARKER, OwnFolder, plan_of, remove_own
from tiersnap.remote_storage.restore.segment_chain import Chain, LogPiece
from tiersnap.remote_storage.restore.segment_files import fetch_piece, same_content
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.context_pool import ContextPool
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.formats.checkpoints import format_leader_epochs, format_topic_id
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import LEADER_EPOCHS, PARTITION_METADATA, FileRef, Partition, Segment
from tiersnap.snapshot.regular_file import read_regular
from tiersnap.snapshot.replay.expiry import BrokerExpiry
from tiersnap.snapshot.replay.restored_log import RestoredLog, TierParts, replay_restored

_log = logging.getLogger(__name__)

UNFINISHED = "tiersnap-restore."
_FETCHES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """The planned content of the folder of a partition. `topic_id` is the id for partition.metadata."""

    topic: str
    partition: int
    topic_id: str
    chain: Chain
    expiry: BrokerExpiry
    empty_state: bool = False

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        return f"{self.topic}-{self.partition}"

    @property
    def unfinished_prefix(self) -> str:
        """Return the prefix of the names of this partition's unfinished folders."""
        return f"{UNFINISHED}{_digest(self.name)}."

    @property
    def digest(self) -> str:
        """Return the digest for the marker. It covers segment ids and offsets."""
        pieces = [(piece.copy.segment_id, piece.start_offset, piece.end_offset) for piece in self.chain.pieces]
        return _digest(repr(pieces))

    def local(self, folder: Path) -> Partition:
        """Return the Partition that `folder` will contain after the restore."""
        segments = [_local_segment(folder, each.start_offset, each.end_offset) for each in self.chain.pieces]
        segments.append(_local_segment(folder, self.chain.end_offset, None))
        return Partition(
            str(folder), tuple(segments), {}, topic=self.topic, topic_id=self.topic_id, partition=self.partition
        )


def _local_segment(folder: Path, base_offset: int, end_offset: int | None) -> Segment:
    return Segment(base_offset, end_offset, FileRef(str(folder / log_name(base_offset)), 0, 0))


class _Files(Protocol):
    def fetch(self, piece: LogPiece) -> None: ...

    def put(self, name: str, data: bytes | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Names of folders that earlier restores of a partition left: the folder to continue, and the folders to delete."""

    resumed: str | None
    leftovers: tuple[str, ...]


def find_unfinished(plan: FolderPlan, log_dir: Path) -> Unfinished:
    """Return the unfinished folder that this plan continues, and the unfinished folders to delete.

    Raises:
        FolderDiffersError: an unfinished folder has no marker that this user wrote.
    """
    resumed, leftovers = None, []
    for name in _unfinished_names(plan, log_dir):
        digest = plan_of(log_dir / name)
        if digest is None:
            raise FolderDiffersError(
                f"{log_dir / name} is named like an unfinished restore, but this user did not make it",
                hint="no broker starts while the folder exists: check its content, and delete it yourself",
            )
        if digest == plan.digest and resumed is None:
            resumed = name
        else:
            leftovers.append(name)
    return Unfinished(resumed, tuple(leftovers))


def _unfinished_names(plan: FolderPlan, log_dir: Path) -> list[str]:
    return sorted(path.name for path in log_dir.iterdir() if path.name.startswith(plan.unfinished_prefix))


def build_folder(store: ObjectStore, plan: FolderPlan, log_dir: Path) -> tuple[Path, RestoredLog]:
    """Fetch, check and write all files. Return the synced folder under its temporary name, and the replayed log.

    Raises:
        CorruptDataError: an object is damaged.
        FolderDiffersError: see `find_unfinished`.
        UsageError, TransientError: the log directory cannot be written to.
    """
    resumed = find_unfinished(plan, log_dir).resumed
    like = log_dir / META_PROPERTIES
    with _written(log_dir):
        if resumed is None:
            folder = OwnFolder.made(log_dir, plan.unfinished_prefix, plan.digest, like=like)
        else:
            folder = OwnFolder(log_dir / resumed, like=like)
    with folder, _written(folder.path):
        try:
            with _NewFiles(store, plan, folder) as files:
                found = _fill(store, plan, folder.path, files)
        except CorruptDataError as error:
            # The disk or the remote object is damaged: the next attempt fetches the segment again.
            if isinstance(base_offset := error.attrs.get("base_offset"), int):
                _log.debug("%s: segment %d will be fetched again", folder.path, base_offset)
                folder.remove(log_name(base_offset))
            raise
        for name in folder.names():
            if name not in files.names:
                folder.remove(name)
        folder.sync()
        _log.debug("%s has all of its files", folder.path)
    return folder.path, found


def forget_marker(folder: Path) -> None:
    """Remove the marker from a folder that was renamed to its final name. Ignore a missing marker."""
    with _written(folder), OwnFolder(folder) as own:
        own.remove(MARKER)


def compare_folder(store: ObjectStore, plan: FolderPlan, log_dir: Path) -> RestoredLog:
    """Check that an existing folder equals the result of `build_folder`.

    Raises:
        FolderDiffersError: the folder differs.
    """
    folder = log_dir / plan.name
    with tempfile.TemporaryDirectory(prefix="tiersnap-") as scratch:
        files = _SameFiles(store, folder, Path(scratch))
        found = _fill(store, plan, folder, files)
    files.check_no_others()
    return found


def _fill(store: ObjectStore, plan: FolderPlan, folder: Path, files: _Files) -> RestoredLog:
    pieces = {piece.start_offset: piece for piece in plan.chain.pieces}

    def fetch(segment: Segment) -> TierParts:
        piece = pieces[segment.base_offset]
        files.fetch(piece)
        copy = piece.copy
        name = store.uri + copy.layout.log_key(copy.metadata)
        if not piece.is_whole and piece.end_offset != copy.end_offset:
            return TierParts(name)
        indexes = read_indexes(store, copy)
        if not piece.is_whole:
            return TierParts(name, snapshot=indexes[IndexType.PRODUCER_SNAPSHOT])
        return TierParts(
            name,
            offset_index=indexes[IndexType.OFFSET],
            time_index=indexes[IndexType.TIMESTAMP],
            transaction_index=indexes[IndexType.TRANSACTION],
            snapshot=indexes[IndexType.PRODUCER_SNAPSHOT],
        )

    files.put(PARTITION_METADATA, format_topic_id(plan.topic_id).encode("ascii"))
    files.put(LEADER_EPOCHS, format_leader_epochs(plan.chain.leader_epochs).encode("ascii"))
    return replay_restored(
        LOCAL,
        plan.local(folder),
        plan.chain.leader_epochs,
        fetch=fetch,
        put=files.put,
        empty_state=plan.empty_state,
        expiry=plan.expiry,
    )


class _NewFiles:
    """The files of a new folder. While one segment is checked, the next segments are fetched."""

    def __init__(self, store: ObjectStore, plan: FolderPlan, folder: OwnFolder) -> None:
        self._store, self._folder = store, folder
        self._ahead = iter(plan.chain.pieces)
        self._under_way: deque[tuple[LogPiece, Future[None]]] = deque()
        self._stop = Event()
        self._pool = ContextPool(_FETCHES_AT_ONCE)
        self.names: set[str] = set()

    def __enter__(self) -> _NewFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def fetch(self, piece: LogPiece) -> None:
        for ahead in self._ahead:
            self._under_way.append((ahead, self._pool.submit(self._fetch, ahead)))
            if len(self._under_way) > _FETCHES_AT_ONCE:
                break
        started, future = self._under_way.popleft()
        assert started is piece
        future.result()
        self.names.add(log_name(piece.start_offset))

    def _fetch(self, piece: LogPiece) -> None:
        name = log_name(piece.start_offset)
        size = self._folder.size(name)
        # If the check finds a damaged file, the next attempt fetches the file again.
        if size is None or (piece.is_whole and size != piece.copy.metadata.segment_size):
            fetch_piece(self._store, piece, self._folder, name, self._stop)

    def put(self, name: str, data: bytes | None) -> None:
        if data is None:
            self._folder.remove(name)
            return
        self.names.add(name)
        if self._folder.read(name) == data:
            return
        with self._folder.new_file(name) as file:
            file.write(data)


def log_name(base_offset: int) -> str:
    """Return the file name of the segment with this base offset."""
    return f"{base_offset:020d}.log"


class _SameFiles:
    """The files of an existing folder, which must equal the files of the plan."""

    def __init__(self, store: ObjectStore, folder: Path, scratch: Path) -> None:
        self._store, self._folder, self._scratch = store, folder, scratch / "fetched"
        self._scratch.mkdir()
        self._names: set[str] = set()

    def fetch(self, piece: LogPiece) -> None:
        path = self._folder / log_name(piece.start_offset)
        self._names.add(path.name)
        if not path.is_file() or path.is_symlink():
            raise folder_differs(self._folder, f"{path.name} is missing")
        if not same_content(self._store, piece, path, self._scratch):
            raise folder_differs(self._folder, f"{path.name} differs from the remote segment")

    def put(self, name: str, data: bytes | None) -> None:
        path = self._folder / name
        if data is None:
            return
        self._names.add(name)
        try:
            is_same = read_regular(path) == data
        except OSError as error:
            raise folder_differs(self._folder, f"{name}: {error.strerror}") from error
        if not is_same:
            raise folder_differs(self._folder, f"{name} has other content")

    def check_no_others(self) -> None:
        others = sorted(path.name for path in self._folder.iterdir() if path.name not in self._names | {MARKER})
        if others:
            shown = ", ".join(others[:3])
            if len(others) > 3:
                shown += " …"
            raise folder_differs(self._folder, f"the restored log does not have the file {shown}")


def folder_differs(folder: Path, how: str) -> FolderDiffersError:
    """Return the error that an existing folder differs from the restored log. `how` is the difference."""
    return FolderDiffersError(
        f"{folder} exists, and differs from the restored log: {how}",
        hint="restore overwrites nothing, because a broker may have written to the folder. Check the folder with "
        "tiersnap scan, move it out of the log directory, and run restore again",
    )


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(folder, error) from error


def discard(folder: Path) -> None:
    """Delete an unfinished folder with restore's marker. A folder without a marker is kept."""
    with _written(folder):
        remove_own(folder)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
