"""The state that a run leaves in producer_states, so that the next one need not carry what has not changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiersnap.snapshot import tables
from tiersnap.snapshot.delta_rows import DELTA_COLUMNS, deltas_to_table, table_to_deltas
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.partition_rows import fingerprint
from tiersnap.snapshot.stages.carry_plan import CarryOptions, outcome_fingerprint
from tiersnap.snapshot.stages.decoded_segments import DeltaFiles
from tiersnap.snapshot.state.carry import StartState
from tiersnap.snapshot.table_file import TableFile


@dataclass(frozen=True)
class KeptState:
    """The state of one partition between runs; `row` is its row of the plan."""

    row: Mapping[str, Any]
    partition: Partition
    options: CarryOptions

    def start(self, folder: str, deltas: DeltaFiles) -> StartState | None:
        """The state of the last run, if everything below it is as it was and the high watermark is not.

        Args:
            folder: of the warehouse.
        """
        previous = self.row["previous"]
        if previous is None or previous["state_end_offset"] is None:
            return None
        offset = previous["state_end_offset"]
        high_watermark = self.partition.high_watermark
        if high_watermark is not None and high_watermark < offset:
            return None
        if previous["chain"] != self._chain(offset):
            return None
        row_group = previous["state_row_group"]
        groups = [row_group] if row_group >= 0 else []
        path = f"{folder}/producer_states/{previous['state_file']}"
        try:
            kept = table_to_deltas(deltas.read(path, groups, DELTA_COLUMNS))
        except FileNotFoundError:
            # Somebody cleaned up the table: what the state was made of is still there.
            return None
        return StartState(offset, kept, previous["history_from"], previous["has_adopted"])

    def keep(
        self, state: StartState | None, states: TableFile, *, is_finished: bool, writes: bool, now: int
    ) -> dict[str, Any]:
        """Write the state; the partition's row of PARTITION_STATES.

        Args:
            is_finished: False lets the next run carry the partition again.
            writes: whether the run had somewhere to write snapshots to.
            now: ms, the run's time.
        """
        decoded_at = max((row["decoded_at"] for row in self._decoded()), default=None)
        digest = outcome_fingerprint(
            self.row["fingerprint"], self.row["topic_id"], decoded_at, self.options, writes=writes
        )
        key = {name: self.row[name] for name in tables.PARTITION_KEY}
        row: dict[str, Any] = {**key, "fingerprint": digest if is_finished else "", "recorded_at": now}
        if state is None or not is_finished:
            return row
        deltas = deltas_to_table(state.deltas, {**key, "end_offset": state.offset}, tables.PRODUCER_STATES)
        return row | {
            "state_end_offset": state.offset,
            "state_file": states.name,
            "state_row_group": states.write(deltas),
            "history_from": state.history_from,
            "has_adopted": state.has_adopted,
            "last_timestamp": None,
            "chain": self._chain(state.offset),
        }

    def _decoded(self) -> list[Mapping[str, Any]]:
        """Of the segments that are there."""
        bases = {segment.base_offset for segment in self.partition.segments}
        return [row for row in self.row["decoded"] if row["base_offset"] in bases]

    def _chain(self, offset: int) -> str:
        """Digest of all that the state at `offset`, and what is known of the snapshots below it, were made of."""
        segments = [
            (row["base_offset"], row["size_bytes"], row["modified_ns"])
            for row in self.row["segments"]
            if row["base_offset"] < offset
        ]
        snapshots = [
            (row["end_offset"], row["size_bytes"], row["modified_ns"])
            for row in self.row["snapshots"]
            if row["end_offset"] <= offset
        ]
        is_aligned = any(segment.base_offset == offset for segment in self.partition.segments)
        judged = (self.partition.topic_id, self.partition.cleaner_offset, self.options.producer_expiration)
        return fingerprint(segments, snapshots, is_aligned, judged)
