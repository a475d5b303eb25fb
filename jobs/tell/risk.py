"""Rows of `tiersnap risk` as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from tiersnap.snapshot.risk.waiting import Wait
from tiersnap.snapshot.units import human_bytes, human_duration

# Keys of a row, and the headings over them.
PARTITION_COLUMNS = {
    "partition": "partition",
    "causes": "snapshots",
    "at": "worst at",
    "lost": "lost",
    "degraded": "degraded",
    "doubled": "doubled",
    "doubled_records": "records",
    "exposed": "exposed for",
    "waits": "wait for retention",
    "untiered": "untiered",
    "replay": "replay: full, bounded, incremental",
}
BOUNDARY_COLUMNS = {
    "partition": "partition",
    "offset": "offset",
    "snapshot": "snapshot",
    "cause": "cause",
    "producers": "producers",
    "lost": "lost",
    "degraded": "degraded",
    "doubled": "doubled",
    "doubled_records": "records",
    "exposed": "exposed for",
    "open_transactions": "open transactions",
    "aborted_records": "aborted records",
    "replay": "replay: full, bounded, incremental",
}


def told(row: Mapping[str, object]) -> dict[str, object]:
    """A row of PARTITION_RISK or BOUNDARY_RISK with the partition's name, and its numbers once more in words."""
    said: dict[str, object] = {**row, "partition": f"{row['topic']}-{row['partition']}"}
    said["exposed"] = _exposed(row)
    said["replay"] = (
        None
        if row["full_bytes"] is None
        else ", ".join(human_bytes(_number(row[f"{way}_bytes"])) for way in ("full", "bounded", "incremental"))
    )
    if "wait" in row:
        said["waits"] = (
            human_duration(_number(row["wait_ms"])) if row["wait"] == Wait.WAITING else _WAITS[str(row["wait"])]
        )
        said["untiered"] = human_bytes(_number(row["untiered_bytes"]))
    return said


_WAITS = {
    str(Wait.NOTHING_TO_WAIT_FOR): "-",
    str(Wait.FOR_EVER): "for ever",
    str(Wait.STUCK_TIERING_ENABLED): "stuck: tiering is enabled",
}


def _exposed(row: Mapping[str, object]) -> str | None:
    if row["lost"] is None:
        return None
    if not row["lost"]:
        return "-"
    return "for ever" if row["exposed_ms"] is None else human_duration(_number(row["exposed_ms"]))


def _number(value: object) -> int:
    return int(str(value))
