"""JSON of audit, simulate over a warehouse and with --risk, and report diff; most rows follow an Arrow schema."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, NotRequired, TypedDict

import pyarrow as pa

from tiersnap.snapshot.exactly_once.risk.rows import BOUNDARY_RISK, PARTITION_RISK
from tiersnap.snapshot.exactly_once.simulate.outcomes import SIMULATED
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.tables.schemas import AUDIT_FINDINGS


def row_of(name: str, schema: pa.Schema, *, without: Collection[str] = (), **changed: Any) -> Any:  # noqa: ANN401
    """A TypedDict of the columns of a schema; `changed` replaces or adds keys."""
    columns = {field.name: _kind(field) for field in schema if field.name not in without}
    return TypedDict(name, {**columns, **changed})  # type: ignore[operator]


def _kind(field: pa.Field) -> Any:  # noqa: ANN401
    kind: Any = str
    if pa.types.is_boolean(field.type):
        kind = bool
    elif pa.types.is_integer(field.type):
        kind = int
    elif pa.types.is_floating(field.type):
        kind = float
    elif pa.types.is_map(field.type):
        kind = dict[str, int]
    return kind | None if field.nullable else kind


AuditFinding = row_of("AuditFinding", AUDIT_FINDINGS, without=("run",), time=str | None, segment_file=str | None)
PartitionRisk = row_of(
    "PartitionRisk", PARTITION_RISK, partition=str, exposed=str | None, replay=str | None, waits=str, untiered=str
)
BoundaryRisk = row_of("BoundaryRisk", BOUNDARY_RISK, partition=str, exposed=str | None, replay=str | None)
SimulatedFleetWrite = row_of("SimulatedFleetWrite", SIMULATED, partitions=int)


class AuditSummary(TypedDict):
    """Counts of all findings, shown or not; `findings` of the result is what is wrong with the log directories."""

    findings_by_kind: dict[str, int]
    findings_by_harm: dict[str, int]
    damage_count: NotRequired[Annotated[int, "of all; `findings` has the first thousand"]]
    legacy_count: NotRequired[Annotated[int, "sound segments that end with entries of magic 0 or 1"]]


class ReplicaDisagreement(TypedDict):
    """What another replica's snapshot says otherwise, at the first offset where both have one."""

    replica: str
    partition: str
    compared: int
    offset: int | None
    only_here: int
    only_there: int
    differing: int
    log_start_offset: int
    log_start_offset_there: int
    log_start_goes_back: bool


class SimulateSummary(TypedDict):
    """All rows in a sentence; with --risk one for each of KIP-952's rejected ways, or `risk` if none applies."""

    summary: NotRequired[str]
    not_compared: NotRequired[Annotated[int, "partitions of LOGDIR whose logs begin in remote storage, unknown how"]]
    risk: NotRequired[str]
    empty_snapshots: NotRequired[str]
    waiting: NotRequired[str]
    archiving_none: NotRequired[str]
    replicas: NotRequired[list[ReplicaDisagreement]]


class ChangedPartition(TypedDict):
    """A partition that stands elsewhere in the second run (`report diff`); bytes are null where a run lacks it."""

    partition: str
    log_dir: str
    topic: str
    before: Verdict | None
    after: Verdict | None
    is_worse: bool
    waits: Annotated[str, "bytes that wait, more or less than before"]
    before_tiered_bytes: int | None
    before_ready_bytes: int | None
    before_waiting_bytes: int | None
    after_tiered_bytes: int | None
    after_ready_bytes: int | None
    after_waiting_bytes: int | None


class DiffSummary(TypedDict):
    """Counts of partitions."""

    worse: int
    changed: int
    unchanged: int
    new: int
    gone: int
