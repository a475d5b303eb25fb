"""The place of a segment's producer snapshot, with what was recorded when it was computed or compared."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.remote_storage.errors import ObjectNotFoundError, SnapshotChangedError, SnapshotVanishedError
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.upload.source_file import SourceFile
from tiersnap.remote_storage.upload.trusted_snapshot import TrustedSnapshot
from tiersnap.snapshot.errors import CorruptDataError, TransientError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict

LARGEST_SNAPSHOT = 512 << 20
"""Bytes: eleven million producers, more than a broker can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSource:
    """One snapshot; exactly one of `data`, `file` and `object_key` says where it is.

    Attributes:
        offset: exclusive; the base offset of the segment that follows.
        provenance, verdict, comparison: see TrustedSnapshot.
        crc32c: of the whole file; None where nobody recorded it.
        data: the bytes, where they were just computed.
        file: the broker's, with the size that was compared.
        object_key: in the store that is tiered to.
    """

    offset: int
    provenance: Provenance
    verdict: SnapshotVerdict | None = None
    comparison: SnapshotVerdict | None = None
    crc32c: int | None = None
    data: bytes | None = None
    file: SourceFile | None = None
    object_key: str | None = None

    def load(self, store: ObjectStore) -> TrustedSnapshot:
        """The snapshot as it was recorded.

        Raises:
            SnapshotVanishedError: it is gone.
            SnapshotChangedError: it is another one.
            CorruptSnapshotError, MissingProducerSnapshotError: see TrustedSnapshot.
        """
        data = self._read(store)
        return TrustedSnapshot(self.offset, data, self.provenance, self.verdict, self.crc32c, self.comparison)

    def _read(self, store: ObjectStore) -> bytes:
        if self.data is not None:
            return self.data
        if self.file is not None:
            return self._read_file(self.file)
        key = self.object_key or ""
        try:
            return store.get(key, limit=LARGEST_SNAPSHOT)
        except ObjectNotFoundError as error:
            raise self._vanished(store.uri + key) from error
        except CorruptDataError as error:
            raise SnapshotChangedError(error.message, hint="run the same command again", offset=self.offset) from error

    def _read_file(self, file: SourceFile) -> bytes:
        try:
            return file.read()
        except TransientError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._vanished(file.path) from error
            raise SnapshotChangedError(
                f"{snapshot_file.file_name(self.offset)}: {error.message}",
                hint="run the same command again: it compares anew",
                offset=self.offset,
            ) from error

    def _vanished(self, where: str) -> SnapshotVanishedError:
        return SnapshotVanishedError(
            f"{where}: the snapshot at offset {self.offset} was there when the segment was judged, and is gone",
            hint="run the same command again: it is computed anew",
            offset=self.offset,
            place=where,
        )
