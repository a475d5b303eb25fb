"""The numbers as rows: one a partition, or one a boundary, alike from a log directory and from a warehouse.

Times named `_ms` are durations. `exposed_ms` is null where the exposure never ends by itself, `wait_ms` where no
waiting helps. Counts without a unit are producers or segments.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tiersnap.snapshot.exactly_once.risk.arithmetic import (
    automatic_retry_rate,
    segment_seconds,
    segments_per_expiration,
)
from tiersnap.snapshot.exactly_once.risk.crossing_transactions import Crossing
from tiersnap.snapshot.exactly_once.risk.exposure import NEVER, Exposure
from tiersnap.snapshot.exactly_once.risk.partition_risk import BoundaryRisk, PartitionRisk
from tiersnap.snapshot.exactly_once.risk.replay_cost import ReplayCost, read_ms

_TEXT, _LONG = pa.string(), pa.int64()
_KEY = (("log_dir", _TEXT), ("topic", _TEXT), ("partition", pa.int32()))
# Of an empty snapshot at one offset; null where the log there was not read.
_EXPOSED = tuple(
    (name, _LONG)
    for name in (
        *("producers", "lost", "degraded", "doubled", "doubled_automatically", "doubled_records", "doubled_bytes"),
        *("fencing_lost", "coordinator_epochs_lost", "open_transactions_lost", "exposed_ms", "producer_ms"),
    )
)
# Of the transactions open at that offset; all but the first need the headers of the batches.
_CROSSING = tuple(
    (name, _LONG)
    for name in ("open_transactions", "aborted", "aborted_records", "aborted_bytes", "beginning_late", "undecided")
)
_REPLAY = tuple(
    (name, _LONG)
    for name in (
        *("full_bytes", "full_ms", "bounded_bytes", "bounded_ms", "incremental_bytes", "incremental_ms"),
        *("window_offset", "nearest_offset"),
    )
)
COUNTS = pa.map_(_TEXT, _LONG)

# A row a boundary: the exclusive end offset of a closed segment.
BOUNDARY_RISK = pa.schema(
    [*_KEY, ("offset", _LONG), ("snapshot", _TEXT), ("cause", _TEXT), *_EXPOSED, *_CROSSING, *_REPLAY]
)
# A row a partition. `at` is the boundary without a right snapshot where an empty one would expose most; what it would
# expose, and the transactions open there, follow. The replay is for the highest such boundary.
PARTITION_RISK = pa.schema(
    [
        *_KEY,
        ("segments", _LONG),
        ("bytes", _LONG),
        ("alive", _LONG),  # producers at the log end that a broker still keeps; null where the log cannot be replayed
        ("outlived", _LONG),  # of these, those of which the log holds no record any more
        ("causes", COUNTS),
        ("at", _LONG),
        *_EXPOSED,
        *_CROSSING,
        ("wait", _TEXT),
        ("waiting_segments", _LONG),
        ("first_waiting_offset", _LONG),
        ("wait_ms", _LONG),
        ("ready_at", _LONG),
        ("untiered_bytes", _LONG),
        ("grows_by_bytes", _LONG),
        *_REPLAY,
        ("bounded_mismatches", COUNTS),
        # KIP-952's arithmetic for this log: the time to write a segment, segments written until a producer expires, and
        # the rate from which on clients may still send again by themselves with a segment in between.
        ("bytes_per_second", _LONG),
        ("segment_ms", _LONG),
        ("segments_per_expiration", pa.float64()),
        ("automatic_retry_bytes_per_second", _LONG),
        ("has_headers", pa.bool_()),
    ]
)


def boundary_rows(risk: PartitionRisk) -> Iterator[dict[str, object]]:
    """Rows of BOUNDARY_RISK, ascending."""
    for each in risk.boundaries:
        yield {
            **_key(risk),
            "offset": each.offset,
            "snapshot": str(each.verdict),
            "cause": None if each.cause is None else str(each.cause),
            **_exposed(each.exposure, risk.settings.now),
            **_crossing(each),
            **_replay(each.cost, risk.settings.read_rate),
        }


def partition_row(risk: PartitionRisk) -> dict[str, object]:
    """A row of PARTITION_RISK."""
    survey, settings, wait, worst = risk.survey, risk.settings, risk.waiting, risk.worst
    leader = survey.leader
    alive = None if leader is None else leader.live(now=settings.now, expiration=settings.producer_expiration)
    return {
        **_key(risk),
        "segments": len(survey.segments),
        "bytes": sum(each.size for each in survey.segments),
        "alive": None if alive is None else int(alive.entries.size),
        "outlived": risk.outlived,
        "causes": risk.causes,
        "at": None if worst is None else worst.offset,
        **_exposed(None if worst is None else worst.exposure, settings.now),
        **_crossing(worst),
        "wait": str(wait.state),
        "waiting_segments": wait.segments,
        "first_waiting_offset": wait.first_offset,
        "wait_ms": wait.wait_ms,
        "ready_at": wait.ready_at,
        "untiered_bytes": wait.untiered_bytes,
        "grows_by_bytes": wait.grows_by,
        **_replay(risk.newest_cost, settings.read_rate),
        "bounded_mismatches": {str(reason): count for reason, count in risk.mismatches.items()},
        **_arithmetic(risk),
        "has_headers": survey.has_headers,
    }


def severity(row: dict[str, object]) -> tuple[object, ...]:
    """The order of rows of PARTITION_RISK or of BOUNDARY_RISK, the worst first."""
    counts = ("doubled", "lost", "degraded", "untiered_bytes")
    harm = (-int(str(row.get(name) or 0)) for name in counts)
    return (*harm, row["topic"], row["partition"], row["log_dir"], row.get("offset"))


def _arithmetic(risk: PartitionRisk) -> dict[str, object]:
    size, settings = risk.closed_bytes, risk.settings
    rate = None if risk.rate is None else risk.rate * 1000
    expiration = settings.producer_expiration
    per_expiration = None
    if rate and size and expiration is not None:
        per_expiration = round(segments_per_expiration(size, rate, expiration / 1000), 1)
    return {
        "bytes_per_second": None if rate is None else round(rate),
        "segment_ms": round(segment_seconds(size, rate) * 1000) if rate and size else None,
        "segments_per_expiration": per_expiration,
        "automatic_retry_bytes_per_second": (
            round(automatic_retry_rate(size, settings.delivery_timeout / 1000)) if settings.delivery_timeout else None
        ),
    }


def _key(risk: PartitionRisk) -> dict[str, object]:
    return {"log_dir": risk.survey.log_dir, "topic": risk.survey.topic, "partition": risk.survey.partition}


def _exposed(exposure: Exposure | None, now: int) -> dict[str, object]:
    if exposure is None:
        return dict.fromkeys(name for name, _ in _EXPOSED)
    ends = exposure.harmless_at
    return {
        "producers": exposure.producers,
        "lost": exposure.lost,
        "degraded": exposure.degraded,
        "doubled": exposure.doubled,
        "doubled_automatically": exposure.automatic,
        "doubled_records": exposure.records,
        "doubled_bytes": exposure.bytes,
        "fencing_lost": exposure.fencing,
        "coordinator_epochs_lost": exposure.coordinator_epochs,
        "open_transactions_lost": exposure.open_transactions,
        "exposed_ms": 0 if ends is None else None if ends == NEVER else max(0, ends - now),
        "producer_ms": exposure.producer_ms,
    }


def _crossing(boundary: BoundaryRisk | None) -> dict[str, object]:
    if boundary is None:
        return dict.fromkeys(name for name, _ in _CROSSING)
    found = boundary.crossing
    names = {"aborted": "aborted", "aborted_records": "aborted_records", "aborted_bytes": "aborted_bytes"}
    names |= {"beginning_late": "late", "undecided": "undecided"}
    return {
        "open_transactions": boundary.opened,
        **{name: _of(found, attribute) for name, attribute in names.items()},
    }


def _of(crossing: Crossing | None, attribute: str) -> int | None:
    return None if crossing is None else int(getattr(crossing, attribute))


def _replay(cost: ReplayCost | None, read_rate: int) -> dict[str, object]:
    if cost is None:
        return dict.fromkeys(name for name, _ in _REPLAY)
    return {
        "full_bytes": cost.full,
        "full_ms": read_ms(cost.full, read_rate),
        "bounded_bytes": cost.bounded,
        "bounded_ms": read_ms(cost.bounded, read_rate),
        "incremental_bytes": cost.incremental,
        "incremental_ms": read_ms(cost.incremental, read_rate),
        "window_offset": cost.window_offset,
        "nearest_offset": cost.nearest_offset,
    }
