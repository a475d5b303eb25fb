"""Segments to decode -> rows of the table `record_batches`: batch headers under the identity of their file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiersnap.snapshot.log.segment_scan import SegmentScan
from tiersnap.snapshot.tables.listed import partition_folder
from tiersnap.snapshot.tables.record_batches import to_batch
from tiersnap.snapshot.tables.schemas import TABLES


@dataclass(frozen=True)
class DecodeBatches:
    """WANTED rows -> rows of TABLES["record_batches"]; of a damaged or unreadable segment those before the damage.

    Attributes:
        run: number of the run that decodes.
    """

    check_crc: bool
    run: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each segment."""
        for batch in batches:
            for wanted in batch.to_pylist():
                yield from self._decode(wanted)

    def _decode(self, wanted: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        filesystem, folder = partition_folder(wanted)
        scan = SegmentScan(
            filesystem,
            f"{folder}/{wanted['base_offset']:020d}.log",
            base_offset=wanted["base_offset"],
            next_base_offset=wanted["next_base_offset"],
            check_crc=self.check_crc,
        )
        identity = {
            **wanted,
            "segment_base_offset": wanted["base_offset"],
            "segment_size_bytes": wanted["size_bytes"],
            "segment_modified_ns": wanted["modified_ns"],
            "run": self.run,
        }
        for rows in scan:
            yield to_batch(rows, identity, TABLES["record_batches"])
