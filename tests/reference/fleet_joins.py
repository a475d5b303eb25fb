"""The joins of the fleet's pipeline in plain Python over rows: the readable reference of jobs.pipeline.

Tables are lists of rows as dicts, as `to_pylist` of their Arrow schema gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from operator import itemgetter
from typing import Any

import pyarrow as pa

from tests.reference.fact_rows import offset_of
from tiersnap.jobs.pipeline.partition_input import INPUT, Source
from tiersnap.snapshot.errors import RecordedError
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY, SEGMENT_KEY

Row = dict[str, Any]

STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
LOST = ("SnapshotVanishedError", "SnapshotChangedError", "SegmentChangedError")
NOT_READ = ("UNREADABLE_FILE", "PERMISSION_DENIED")
_FACT = ("kind", "snapshot_offset", "base_offset", "part")
JUDGED = ("REPLAYED", "BOUNDARY", "SEGMENT")


@dataclass
class Tables:
    """The tables that a run reads."""

    segments: list[Row] = field(default_factory=list)
    partitions: list[Row] = field(default_factory=list)
    remote_log_segments: list[Row] = field(default_factory=list)
    readiness: list[Row] = field(default_factory=list)

    def next_run(self) -> int:
        """A number that no run had."""
        rows = (*self.segments, *self.partitions, *self.remote_log_segments)
        return 1 + max((row["run"] for row in rows), default=0)

    def facts(self, key: tuple[Any, ...]) -> list[Row]:
        """The facts of a partition that hold."""
        last: dict[tuple[Any, ...], Row] = {}
        for row in (each for each in self.partitions if key_of(each) == key):
            place = tuple(row[name] for name in _FACT)
            last[place] = max(row, last.get(place, row), key=itemgetter("run"))
        return [row for row in last.values() if not row["has_ended"]]

    def decodes(self, key: tuple[Any, ...], base_offset: int) -> list[Row]:
        """The parts of the newest decode of a segment."""
        wanted = (*key, base_offset)
        return newest(row for row in self.segments if tuple(row[name] for name in SEGMENT_KEY) == wanted)


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """PARTITION_KEY of a row."""
    return tuple(row[name] for name in PARTITION_KEY)


def newest(rows: Iterable[Row]) -> list[Row]:
    """Of rows with one key those of the greatest run."""
    found = list(rows)
    last = max((row["run"] for row in found), default=None)
    return [row for row in found if row["run"] == last]


def partition_change(listed: Row, tables: Tables, *, options_digest: str, check_crc: bool) -> Row:
    """One row of changes.partition_changes."""
    key = key_of(listed)
    replayed = next((row for row in tables.facts(key) if row["kind"] == "REPLAYED"), None)
    lost_run = max(
        (
            row["run"]
            for row in tables.remote_log_segments
            if row["error_type"] in LOST
            and row["topic_id"] is not None
            and (row["topic_id"], row["partition"]) == (listed["topic_id"], listed["partition"])
        ),
        default=None,
    )
    is_lost = replayed is not None and lost_run is not None and lost_run >= replayed["run"]
    start = None if replayed is None or is_lost else _start_offset(listed, replayed, options_digest)
    if start is None:
        start = listed["snapshot_offset"]
    known = {segment["base_offset"]: tables.decodes(key, segment["base_offset"]) for segment in listed["segments"]}
    left_out = [
        segment
        for segment in listed["segments"]
        if not known[segment["base_offset"]] and not _is_needed(listed, segment, start)
    ]
    wanted = []
    for segment in listed["segments"]:
        if not _is_needed(listed, segment, start):
            continue
        parts = known[segment["base_offset"]]
        is_as_it_was = _is_as_it_was(segment, listed["topic_id"], parts, check_crc)
        is_as_it_was &= not _is_other_than_decoded(listed, segment, parts, tables)
        was_read = not parts or parts[0]["finding_kind"] not in NOT_READ
        if not (is_as_it_was and was_read):
            not_read = parts[0]["message"] if is_as_it_was else None
            of_it = {name: segment[name] for name in _WANTED}
            wanted.append({"topic_id": listed["topic_id"], **of_it, "not_read": not_read})
    retry_count = sum(segment["not_read"] is not None for segment in wanted)
    newest_decode = max((row["run"] for rows in known.values() for row in rows), default=None)
    is_as_replayed = (
        replayed is not None
        and not is_lost
        and replayed["fingerprint"] == f"{listed['fingerprint']}:{options_digest}"
        and len(wanted) == retry_count
        and (newest_decode is None or newest_decode <= replayed["run"])
    )
    return {
        **dict(zip(PARTITION_KEY, key, strict=True)),
        "start_offset": start,
        "is_changed": not is_as_replayed,
        "segment_count": len(listed["segments"]),
        "decode_count": len(wanted),
        "retry_count": retry_count,
        "decode_bytes": sum(segment["size_bytes"] for segment in wanted if segment["decode"] is None),
        "left_out_count": len(left_out),
        "left_out_bytes": sum(segment["size_bytes"] for segment in left_out),
        "wanted": wanted,
        "finding_count": len(listed["findings"]),
        "copy_count": len(listed["copies"]),
        "unknown_encryption": int(listed["encryption"] == "UNKNOWN"),
        "unread_count": replayed["unread_count"] if replayed is not None and is_as_replayed else 0,
    }


def unread_snapshots(listed: Row, change: Row, tables: Tables) -> list[Row]:
    """Rows of look_again.UNREAD of one partition."""
    if not change["unread_count"]:
        return []
    facts = (row for row in tables.facts(key_of(listed)) if row["kind"] == "BOUNDARY")
    unread = {row["snapshot_offset"]: row["not_read"] for row in facts if row["not_read"] is not None}
    return [
        {
            **{name: listed[name] for name in PARTITION_KEY},
            **{name: file[name] for name in ("end_offset", "object")},
            "not_read": unread[file["end_offset"]],
        }
        for file in listed["snapshots"]
        if file["end_offset"] in unread
    ]


def _is_needed(listed: Row, segment: Row, start: int | None) -> bool:
    is_below = segment["is_tiered"] and start is not None and segment["next_base_offset"] <= start
    return not is_below and segment["base_offset"] >= (listed["window_offset"] or 0)


_WANTED = ("base_offset", "next_base_offset", "size_bytes", "modified_ns", "cuts", "decode")


def _start_offset(listed: Row, replayed: Row, options_digest: str) -> int | None:
    offset = replayed["state_offset"]
    chains = {segment["base_offset"]: segment["chain"] for segment in listed["segments"]}
    is_good = (
        offset is not None
        and chains.get(offset) == replayed["state_chain"]
        and replayed["fingerprint"].split(":")[-1] == options_digest
        and None not in (listed["high_watermark"], replayed["high_watermark"])
        and min(listed["high_watermark"], replayed["high_watermark"]) >= offset
    )
    return offset if is_good else None


def _is_other_than_decoded(listed: Row, segment: Row, parts: list[Row], tables: Tables) -> bool:
    return listed["topic_id"] is not None and any(
        row["error_type"] == "SegmentChangedError"
        and (row["topic_id"], row["partition"]) == (listed["topic_id"], listed["partition"])
        and row["base_offset"] == segment["base_offset"]
        and row["run"] >= parts[0]["run"]
        for row in tables.remote_log_segments
        if parts
    )


def _is_as_it_was(segment: Row, topic_id: str | None, parts: list[Row], check_crc: bool) -> bool:
    if not parts:
        return False
    known = parts[0]
    follows = segment["next_base_offset"] == known["next_base_offset"]
    was_rolled_when_sound = (
        known["next_base_offset"] is None
        and known["valid_bytes"] == known["size_bytes"] > 0
        and segment["next_base_offset"] is not None
        and known["last_offset"] < segment["next_base_offset"]
    )
    is_closed = segment["next_base_offset"] is not None
    reached = [cut for cut in segment["cuts"] if is_closed or cut <= known["last_offset"] + 1]
    return (
        (segment["size_bytes"], segment["modified_ns"], topic_id)
        == (known["size_bytes"], known["modified_ns"], known["topic_id"])
        and (follows or was_rolled_when_sound)
        and (known["finding_kind"] in NOT_READ or set(reached) <= {part["run_start_offset"] for part in parts})
        and (known["crc_checked"] or not check_crc)
    )


def replay_input(listed: Row, change: Row, tables: Tables) -> list[Row]:
    """Rows of INPUT of one partition that is replayed, in order."""
    key, start = key_of(listed), change["start_offset"]
    kept = {} if start is not None else {"state_offset": None, "deltas": None}
    facts = [{**row, **kept} for row in tables.facts(key)]
    decodes = []
    for segment in listed["segments"]:
        for row in tables.decodes(key, segment["base_offset"]):
            is_below = start is not None and row["base_offset"] < start
            if not is_below or row["part"] == 0:
                decodes.append({**row, "deltas": None if is_below else row["deltas"]})
    edge = listed["window_offset"] if start is None else None
    shown = [row for row in decodes if edge is not None and row["base_offset"] >= edge]
    return [
        _input(listed, Source.LISTED, 0, 0, listed=listed),
        *sorted((_input(row, Source.FACTS, offset_of(row), row["part"], fact=row) for row in facts), key=_place),
        *sorted((_input(row, Source.WINDOW, row["base_offset"], row["part"], decode=row) for row in shown), key=_place),
        *sorted(
            (_input(row, Source.DECODES, row["base_offset"], row["part"], decode=row) for row in decodes), key=_place
        ),
    ]


def judge_input(key: tuple[Any, ...], tables: Tables) -> list[Row]:
    """Rows of INPUT of one partition that is judged, in order."""
    facts = [row for row in tables.facts(key) if row["kind"] in JUDGED]
    topic_ids = {row["topic_id"] for row in facts if row["kind"] == "REPLAYED"} - {None}
    copies = [
        row
        for row in current(tables.remote_log_segments).values()
        if row["topic_id"] in topic_ids and (row["topic"], row["partition"]) == key[1:]
    ]
    of_key = dict(zip(PARTITION_KEY, key, strict=True))
    copies += [
        row
        for row in tables.remote_log_segments
        if row["error_type"] == "UnknownTransactionsError" and (row["topic"], row["partition"]) == key[1:]
    ]
    return [
        *sorted((_input(row, Source.FACTS, offset_of(row), row["part"], fact=row) for row in facts), key=_place),
        *sorted((_input(of_key, Source.COPIES, row["base_offset"], 0, copy=row) for row in copies), key=_place),
    ]


def _input(row: Row, source: Source, offset: int, part: int, **filled: Row) -> Row:
    of_key = {name: row[name] for name in PARTITION_KEY}
    return {**of_key, "source": int(source), "offset": offset, "part": part, **filled}


def _place(row: Row) -> tuple[int, int]:
    return row["offset"], row["part"]


def input_batches(rows: list[Row], *, size: int = 5) -> Iterator[pa.RecordBatch]:
    """Rows of INPUT as Spark hands them to a task; small batches, so that parts of one thing lie in several."""
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], schema=INPUT)


def current(remote_log_segments: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """The newest state of every attempt: of the latest run the furthest, a published one before others."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in remote_log_segments:
        attempt = row["topic"], row["topic_id"], row["partition"], row["segment_id"]
        if row["segment_id"] is not None and row["state"] is not None:
            known = found.get(attempt)
            if known is None or _order(row) > _order(known):
                found[attempt] = row
    return found


def _order(row: Row) -> tuple[int, int, bool]:
    return row["run"], STATES.index(row["state"]), bool(row["is_published"])


OF_SEGMENT = (
    *("topic_id", "base_offset", "next_base_offset", "size_bytes", "modified_ns", "digest", "crc_checked"),
    *("largest_timestamp", "damage_kind", "damage", "has_gaps", "missing_parts", "rebuilt_parts", "index_faults"),
)
OF_VERDICT = ("verdict", "level", "reason", "next_step", "snapshot", "snapshot_provenance", "compared")
# These are to be uploaded, or wait for something, which their reason names.
TO_UPLOAD = (
    *("READY", "BEFORE_WINDOW"),
    *("CORRUPT_SEGMENT", "GAP_IN_REMOTE", "CORRUPT_SNAPSHOT", "SUSPECT_SNAPSHOT", "INDEX_DAMAGED", "MISSING_SNAPSHOT"),
    *("UNKNOWN_LOG_START", "UNKNOWN_TRANSACTIONS", "UNREADABLE_SEGMENT", "UNVERIFIED_SNAPSHOT", "MISSING_INDEX"),
    *("TOPIC_ID_UNKNOWN", "ENCRYPTED_REMOTE", "ABOVE_LSO", "COPY_IN_FLIGHT", "GAP_BEFORE"),
)


def verdicts_of(key: tuple[Any, ...], tables: Tables) -> dict[int, Row]:
    """The newest row of `readiness` of each segment of a partition that is not gone."""
    last: dict[int, Row] = {}
    for row in tables.readiness:
        if key_of(row) == key and row["run"] > last.get(row["base_offset"], {"run": 0})["run"]:
            last[row["base_offset"]] = row
    return {base: row for base, row in last.items() if row["verdict"] is not None}


def news(keys: Iterable[tuple[Any, ...]], judged: list[Row], tables: Tables, *, run: int, now: int) -> Iterator[Row]:
    """Rows to append to `readiness`: of JUDGED rows of these partitions what it does not say yet."""
    day = (date(1970, 1, 1) + timedelta(milliseconds=now)).isoformat()
    for key in keys:
        before = verdicts_of(key, tables)
        written = {**dict(zip(PARTITION_KEY, key, strict=True)), "run": run, "judged_at": now, "judged_on": day}
        now_there = {row["base_offset"]: row for row in judged if key_of(row) == key}
        for base, row in now_there.items():
            if base not in before or _says_other(row, before[base]):
                yield {**written, **{name: row[name] for name in (*OF_SEGMENT, *OF_VERDICT)}}
        for base in before.keys() - now_there.keys():
            yield {**written, **{name: before[base][name] for name in OF_SEGMENT}, **dict.fromkeys(OF_VERDICT)}


def _says_other(row: Row, before: Row) -> bool:
    names = ["verdict", "snapshot", "compared", "next_base_offset"]
    names += ["reason", "snapshot_provenance"] if row["verdict"] in TO_UPLOAD else []
    names += ["size_bytes"] if row["next_base_offset"] is not None else []
    return any(row[name] != before[name] for name in names)


def differences(listed: Iterable[Row], remote_log_segments: list[Row], *, run: int) -> list[Row]:
    """Rows to append to `remote_log_segments` so that it says what was found."""
    known = current(remote_log_segments)
    nothing = dict.fromkeys(Rows(RecordedError).names)
    rows = []
    for partition in (row for row in listed if row["topic_id"] is not None):
        of_it = {name: partition[name] for name in ("topic", "topic_id", "partition")}
        place = partition["topic"], partition["topic_id"], partition["partition"]
        seen = {copy["segment_id"] for copy in partition["copies"]}
        for copy in partition["copies"]:
            before = known.get((*place, copy["segment_id"]))
            is_new = before is None or before["state"] == STATES[3] or (before["state"], copy["state"]) == STATES[:2]
            is_none_any_more = before is not None and (copy["state"], before["state"]) == STATES[:2] and copy["is_ours"]
            was_published = True if before is not None and before["is_published"] else None
            published = was_published if copy["is_published"] is None else copy["is_published"]
            is_told = before is not None and before["state"] == copy["state"] and before["is_published"] != published
            if is_new or is_none_any_more or is_told:
                told = {**copy, "is_published": published}
                rows.append({**of_it, **told, **nothing, "object_bytes": 0, "rebuilt_indexes": {}, "run": run})
        if partition["error"] is None and partition["segments"]:
            local_start = partition["segments"][0]["base_offset"]
            rows += [
                {**row, "state": STATES[3], "run": run}
                for attempt, row in known.items()
                if attempt[:3] == place
                and row["state"] in STATES[:2]
                and row["next_base_offset"] > local_start
                and row["segment_id"] not in seen
            ]
    return rows
