"""The JSON schema of readiness.json, made from the same names that write it.

python -m tiersnap.snapshot.report.json_schema > docs/readiness.schema.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from typing import Any

from tiersnap.snapshot.readiness.verdict import DISPLAY_ORDER, Level
from tiersnap.snapshot.replay.snapshot_verdict import COMPARED, Provenance, SnapshotVerdict
from tiersnap.snapshot.report.files import SCHEMA_VERSION
from tiersnap.snapshot.report.run_info import RunCounts

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_INTEGER: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}
_DAYS: Schema = {"type": ["number", "null"]}
_VERDICT: Schema = {"enum": [str(verdict) for verdict in DISPLAY_ORDER]}
_GROUPS = ("", "tiered_", "ready_", "waiting_", "never_tiered_")


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(properties: dict[str, Schema]) -> Schema:
    """All keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema, names: list[str] | None = None) -> Schema:
    """Any keys, or some of `names`."""
    known: Schema = {} if names is None else {"propertyNames": {"enum": names}}
    return {"type": "object", "additionalProperties": values, **known}


_SEGMENTS_AND_BYTES = {"segments": _COUNT, "bytes": _COUNT}
_STEPS = {"next_step": _TEXT, "commands": _list(_TEXT)}
_WORST = {"worst": _or_null(_VERDICT), "level": {"enum": [str(level) for level in Level]}}
_TOTALS: dict[str, Schema] = {
    **{f"{group}{unit}": _COUNT for group in _GROUPS for unit in _SEGMENTS_AND_BYTES},
    "findings": _COUNT,
    "waiting_since": _or_null(_INTEGER),
    "recent_bytes": _COUNT,
    "verdicts": _map(_object(_SEGMENTS_AND_BYTES), [str(verdict) for verdict in DISPLAY_ORDER]),
}
_DISK = {"mount": _TEXT, "total": _COUNT, "free": _COUNT, "log_dirs": _list(_TEXT)}
_RUN = {
    "run_id": _TEXT,
    "started_at": _INTEGER,
    "finished_at": _INTEGER,
    "source": _TEXT,
    "remote": _TEXT,
    "warehouse": _TEXT,
    "version": _TEXT,
    "applied": _FLAG,
    "ready_elsewhere": _map(_COUNT),
    "sources": _list(_TEXT),
    "collected": _map(_TEXT),
    "disks": _list(_object(_DISK)),
    "options": _map(_list(_TEXT)),
    "judged_at": _or_null(_INTEGER),
    **{field.name: _COUNT for field in fields(RunCounts)},
}
_SNAPSHOT = {"enum": [str(verdict) for verdict in SnapshotVerdict]}
_STRICT = sorted(str(verdict) for verdict in COMPARED)
_PROVENANCE = _or_null({"enum": [str(provenance) for provenance in Provenance]})
_AT_ENDS = {
    "snapshot": _SNAPSHOT,
    "provenance": _PROVENANCE,
    "compared": _or_null({"enum": _STRICT}),
    "segments": _COUNT,
}
_HELD = {
    "base_offset": _COUNT,
    "end_offset": _or_null(_COUNT),
    "segments": _COUNT,
    "snapshot": _SNAPSHOT,
    "provenance": _PROVENANCE,
}
_PARTITION = {
    "log_dir": _TEXT,
    "partition": _COUNT,
    "topic_id": _or_null(_TEXT),
    **_WORST,
    **_TOTALS,
    "log_start_offset": _COUNT,
    "last_stable_offset": _or_null(_COUNT),
    "high_watermark": _or_null(_COUNT),
    "blocking": _list(
        _object({"verdict": _VERDICT, "base_offset": _COUNT, **_SEGMENTS_AND_BYTES, "reason": _TEXT, **_STEPS})
    ),
    "snapshots": _or_null(_list(_object(_HELD))),
}
_CAUSE = {
    "verdict": _VERDICT,
    "meaning": _TEXT,
    "partitions": _COUNT,
    **_SEGMENTS_AND_BYTES,
    "behind_segments": _COUNT,
    "behind_bytes": _COUNT,
    **_STEPS,
}
_FORECAST = {
    **dict.fromkeys(("bytes_per_day", "tiered", "ready", "waiting"), _COUNT),
    "disks": _list(
        _object({**_DISK, "bytes_per_day": _COUNT, "freeable": _COUNT, "days": _DAYS, "days_when_freed": _DAYS})
    ),
}


def schema() -> Schema:
    """The schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "readiness.json of a tiersnap report",
        **_object(
            {
                "schema_version": {"const": SCHEMA_VERSION},
                "run": _object(_RUN),
                "log_dirs": _list(_TEXT),
                "cluster": _object({**_WORST, "topics": _COUNT, "partitions": _COUNT, **_TOTALS}),
                "causes": _list(_object(_CAUSE)),
                "snapshots": _list(
                    _object(
                        {
                            "snapshot": _SNAPSHOT,
                            "provenance": _PROVENANCE,
                            "compared": _or_null({"enum": _STRICT}),
                            "segments": _COUNT,
                        }
                    )
                ),
                "compared": _map(_COUNT, _STRICT),
                "forecast": _object(_FORECAST),
                "topics": _list(
                    _object({"topic": _TEXT, **_WORST, **_TOTALS, "partitions": _list(_object(_PARTITION))})
                ),
            }
        ),
    }


def text() -> str:
    """The schema as docs/readiness.schema.json has it."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
