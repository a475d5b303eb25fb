"""Conditions whose loss would cost data or a wrong snapshot, each broken on purpose in every `make mutate`.

A sample may miss them; these are never missed. `before` is there exactly once in the module.
"""

from __future__ import annotations

from typing import NamedTuple


class Danger(NamedTuple):
    """One condition, and what it becomes."""

    path: str
    name: str
    before: str
    after: str


_TRUST, _CARRY = "snapshot/replay/snapshot_comparison.py", "snapshot/replay/partition_state.py"
_BUNDLE, _FILES = "remote_storage/upload/bundle.py", "snapshot/repair/files.py"
_EPOCHS = "remote_storage/metadata/segment_metadata.py"
_ATOMIC, _COVERAGE = "snapshot/atomic_file.py", "snapshot/log/coverage.py"
_AHEAD = "remote_storage/upload/segments_in_flight.py"
_EXAMINE, _STATE = "snapshot/replay/examine.py", "snapshot/producer_fold.py"

DANGERS = (
    Danger(_COVERAGE, "a hole at the beginning is covered", "start <= start_offset and end_offset", "end_offset"),
    Danger(_COVERAGE, "an incomplete copy covers", "if copy.is_complete:", "if True:"),
    Danger(
        _TRUST, "an old batch may be young", '(theirs["last_offset"] < history_from)\n    same_t', "True\n    same_t"
    ),
    Danger(_TRUST, "a known batch is forgotten", '(ours["last_offset"] < 0) & (', "("),
    Danger(_TRUST, "any marker is explained", '| (ours["coordinator_epoch"] < 0)', '| (ours["coordinator_epoch"] < 9)'),
    Danger(_TRUST, "the last sequence is not compared", '"last_offset", "last_sequence", "of', '"last_offset", "of'),
    Danger(_TRUST, "the delta is not compared", '"last_sequence", "offset_delta")', '"last_sequence")'),
    Danger(
        _TRUST,
        "a transaction of the log is explained",
        ' & (theirs["current_txn_first_offset"] < history_from)',
        "",
    ),
    Danger(_TRUST, "a lost transaction is explained", '(theirs["current_txn_first_offset"] >= 0) & (', "("),
    Danger(
        _TRUST,
        "one since offset 0 is none",
        '(entries["current_txn_first_offset"] >= 0)',
        '(entries["current_txn_first_offset"] > 0)',
    ),
    Danger(
        _TRUST,
        "one since offset 0 is not older",
        '(theirs["current_txn_first_offset"] >= 0)',
        '(theirs["current_txn_first_offset"] > 0)',
    ),
    Danger(_TRUST, "what was touched is explained", "explained &= same_last | ~touched", "pass"),
    Danger(_TRUST, "epoch 0 is no epoch", '(ours["producer_epoch"] >= 0)', '(ours["producer_epoch"] > 0)'),
    Danger(_TRUST, "an extra producer of the log is explained", '(extra["last_offset"] < history_from) & ', ""),
    Danger(
        _TRUST,
        "an extra transaction of the log is explained",
        ' & (extra["current_txn_first_offset"] < history_from)',
        "",
    ),
    Danger(
        _CARRY, "history is gone after adopting", "0 if self.has_adopted else self.history_from", "self.history_from"
    ),
    Danger(
        _CARRY,
        "adopting is forgotten in the state",
        "self.history_from, self.has_adopted)",
        "self.history_from, False)",
    ),
    Danger(_CARRY, "a window looks like a whole log", "max(log_start, start.history_from)", "log_start"),
    Danger(_CARRY, "the cleaner's offset itself", "offset <= self._cleaned_below", "offset < self._cleaned_below"),
    Danger(_CARRY, "an adopted file is not the state", "self._go_on_from(theirs)", "pass"),
    Danger(_CARRY, "a suspect file is adopted", "is SnapshotVerdict.EXTENDS and", "is not SnapshotVerdict.MATCHES and"),
    Danger(_STATE, "the later of two refusals", "min((error for error", "max((error for error"),
    Danger(
        _EXAMINE,
        "a refusal at the last offset",
        "refusal.offset <= end.last_offset",
        "refusal.offset < end.last_offset",
    ),
    Danger(
        _EXAMINE,
        "a refused partition is no finding",
        "if replay.refusal is not None:\n        yield",
        "if False:\n        yield",
    ),
    Danger(_EPOCHS, "an epoch at the next base offset", "if start < entry[1] < end:", "if start < entry[1] <= end:"),
    Danger(
        _BUNDLE,
        "the lineage reaches beyond the segment",
        "if entry[1] < self.next_base_offset)",
        "if entry[1] <= self.next_base_offset)",
    ),
    Danger(_EPOCHS, "two epochs at one offset", "if entry[1] != after[1])", "if True)"),
    Danger(
        _BUNDLE,
        "the snapshot of another offset",
        "self.producer_snapshot.offset != self.next",
        "self.producer_snapshot.offset > self.next",
    ),
    Danger(_ATOMIC, "bytes are not durable before the name", "os.fsync(file.fileno())", "pass"),
    Danger(_ATOMIC, "the name is not durable", "        sync_directory(path.parent)\n", "        pass\n"),
    Danger(_ATOMIC, "what could not be put in place stays", "temporary.unlink(missing_ok=True)", "pass"),
    Danger(_FILES, "the highest is not durable before the next", "in {0, len(ordered) - 1}", "== len(ordered) - 1"),
    Danger(_FILES, "the names are not durable", "in {0, len(ordered) - 1}", "== 0"),
    Danger(_AHEAD, "what was begun is not undone", "each.callback(begun.give_up)", "pass"),
    Danger(_FILES, "the lowest first", "-each[1].offset", "each[1].offset"),
    Danger(_FILES, "what was staged stays after an error", "self._staging.__exit__()", "pass"),
    Danger(
        "remote_storage/locks/claim_protocol.py",
        "an upload of a kept copy stays",
        "segment_id in claim.segment_ids:",
        "segment_id == claim.finished:",
    ),
)
