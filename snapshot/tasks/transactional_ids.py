"""Folders of `__transaction_state` -> which transactional id has which producer id, by their newest records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tiersnap.snapshot.exactly_once.transactions.transaction_log import read_states
from tiersnap.snapshot.log.log_dir import read_partition
from tiersnap.snapshot.tables.schemas import schema_of
from tiersnap.snapshot.tasks.sources import LogDirSource, open_source

TRANSACTIONAL_IDS = schema_of(
    ("cluster_id", pa.string()),  # null where the disk does not say
    ("producer_id", pa.int64()),  # the current one, the one before a rotation, or the one after it
    ("transactional_id", pa.string()),
    ("offset", pa.int64()),  # of the record
)


@dataclass(frozen=True)
class ListTransactionalIds:
    """FOLDERS rows -> TRANSACTIONAL_IDS rows; what cannot be read has none, and a finding of the listing says so."""

    check_crc: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read each folder."""
        for batch in batches:
            for log_dir, folder in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                rows = list(self._rows(log_dir, folder))
                yield pa.RecordBatch.from_pylist(rows, schema=TRANSACTIONAL_IDS)

    def _rows(self, uri: str, folder: str) -> Iterator[dict[str, object]]:
        source = open_source(uri)
        if not isinstance(source, LogDirSource):
            return
        log_dir = source.log_dir
        cluster_id = None if source.properties is None else source.properties.cluster_id
        partition = read_partition(log_dir.filesystem, f"{log_dir.path}/{folder}", log_dir.checkpoints)
        for record in read_states(log_dir.filesystem, partition, check_crc=self.check_crc).records:
            value = record.value
            ids = () if value is None else (value.producer_id, value.previous_producer_id, value.next_producer_id)
            for producer_id in {each for each in ids if each >= 0}:
                named = {"producer_id": producer_id, "transactional_id": record.transactional_id}
                yield {"cluster_id": cluster_id, "offset": record.offset, **named}
