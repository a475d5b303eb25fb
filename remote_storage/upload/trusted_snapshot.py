"""The producer snapshot without which no segment is tiered: one that was compared with the log, or computed from it."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.remote_storage.errors import SnapshotChangedError
from tiersnap.snapshot.errors import CorruptSnapshotError, MissingProducerSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.formats.crc32c import crc32c
from tiersnap.snapshot.replay.snapshot_verdict import Provenance, SnapshotVerdict
from tiersnap.snapshot.units import count_of


@dataclass(frozen=True, slots=True)
class TrustedSnapshot:
    """The state of all batches below `offset`, as the bytes of a `.snapshot` file.

    Attributes:
        offset: exclusive; the base offset of the segment that follows.
        provenance: where the content comes from.
        verdict: what comparing with the log said; a broker's file needs one, what was computed is its own.
        comparison: of a broker's file with every entry counted, where that is known: leave to upload is no more than
            that, and only a file that matches strictly may start a replay.
        crc32c: of the whole file, as it was recorded when it was computed or compared; None where it was not.

    Raises:
        SnapshotChangedError: these are not the bytes that were recorded.
        CorruptSnapshotError: a broker could not read these bytes, or they tell of offsets from `offset` on.
        MissingProducerSnapshotError: a broker's file that was not compared, or that contradicts the log.
    """

    offset: int
    data: bytes
    provenance: Provenance
    verdict: SnapshotVerdict | None = None
    crc32c: int | None = None
    comparison: SnapshotVerdict | None = None

    def __post_init__(self) -> None:
        name = snapshot_file.file_name(self.offset)
        if self.crc32c is not None and (found := crc32c(self.data)) != self.crc32c:
            raise SnapshotChangedError(
                f"{name}: {count_of(len(self.data), 'byte')} with CRC {found:08x}, the one that was computed or "
                f"compared had CRC {self.crc32c:08x}",
                hint="run the same command again: it compares anew",
                offset=self.offset,
            )
        entries = snapshot_file.checked(self.data, name=name)
        newest = max(int(entries[field].max(initial=-1)) for field in ("last_offset", "current_txn_first_offset"))
        if newest >= self.offset:
            raise CorruptSnapshotError(
                f"{name}: an entry tells of offset {newest}; a snapshot knows nothing from its own offset on",
                hint="the file has another snapshot's name: tiersnap repair LOGDIR --replace --apply",
            )
        if self.provenance is Provenance.BROKER and (self.verdict is None or not self.verdict.is_trusted):
            raise MissingProducerSnapshotError(
                f"{name}: the broker's file is not trusted: {self.verdict or 'not compared with the log'}",
                hint="tiersnap verify SOURCE compares, tiersnap repair LOGDIR --replace --apply rebuilds",
                offset=self.offset,
            )

    @property
    def entry_count(self) -> int:
        """Producers in it."""
        return (len(self.data) - snapshot_file.HEADER_LENGTH) // snapshot_file.ENTRY_LENGTH
