"""A producer snapshot that a segment may be tiered with."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.errors import CorruptSnapshotError, MissingProducerSnapshotError
from tiersnap.snapshot.formats import snapshot_file
from tiersnap.snapshot.state.trust import Provenance, SnapshotVerdict


@dataclass(frozen=True, slots=True)
class TrustedSnapshot:
    """The state of all batches below `offset`, as the bytes of a `.snapshot` file.

    Attributes:
        offset: exclusive; the base offset of the segment that follows.
        provenance: where the content comes from.
        verdict: what comparing with the log said; a broker's file needs one, what was computed is its own.

    Raises:
        CorruptSnapshotError: a broker could not read these bytes, or they tell of offsets from `offset` on.
        MissingProducerSnapshotError: a broker's file that was not compared, or that contradicts the log.
    """

    offset: int
    data: bytes
    provenance: Provenance
    verdict: SnapshotVerdict | None = None

    def __post_init__(self) -> None:
        name = snapshot_file.file_name(self.offset)
        entries = snapshot_file.decode(self.data, name=name)
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
