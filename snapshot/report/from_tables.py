"""Make the data of pages about exactly-once from the tables of a warehouse."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from tiersnap.snapshot.replay.snapshot_verdict import SnapshotVerdict
from tiersnap.snapshot.report.exactly_once import (
    MOST_ROWS,
    NO_FILE,
    Audit,
    AuditCount,
    AuditRow,
    Failover,
    ForgetfulReplica,
    NewestSnapshot,
)
from tiersnap.snapshot.report.run_info import LastSettings
from tiersnap.snapshot.tables.facts import FactKind, StoredResults, newest_results
from tiersnap.snapshot.tables.schemas import PARTITION_KEY

pc: Any = pyarrow.compute  # its stubs take no plain value beside a column
_AUDIT_KEY = ("harm", "kind", "judgement")
# Columns of audit_findings.
AUDIT_COLUMNS = tuple(dict.fromkeys((*_AUDIT_KEY, *AuditRow.__slots__, "batches", *PARTITION_KEY, "run")))
# Columns of audits.
AUDITS_COLUMNS = (*PARTITION_KEY, "run", "damage_count")
# Columns of audit_findings that make a finding of two audits the same one.
_SAME = (*PARTITION_KEY, "kind", "producer_id", "before_last_offset", "first_offset", "last_offset")
# Rows of `partitions`, and their columns, that `failover_of` takes.
FAILOVER_KINDS = (FactKind.REPLAYED, FactKind.BOUNDARY, FactKind.GONE)
FAILOVER_COLUMNS = (*PARTITION_KEY, "kind", "offset", "run", "replayed", "boundary")


def forgetful_of(settings: LastSettings) -> tuple[ForgetfulReplica, ...]:
    """Return the forgetful replicas that a row of `runs` keeps among its settings; none if nobody looked."""
    return msgspec.convert(settings.forgetful, tuple[ForgetfulReplica, ...])


def worst_forgetful(*found: Iterable[ForgetfulReplica]) -> tuple[ForgetfulReplica, ...]:
    """Return forgetful replicas, the worst first, at most MOST_ROWS; of one that is there twice the last one counts."""
    by_replica = {(each.topic, each.partition, each.log_dir): each for each in chain(*found)}
    worst = sorted(by_replica, key=lambda key: (-by_replica[key].forgotten, key))
    return tuple(by_replica[key] for key in worst[:MOST_ROWS])


def failover_of(facts: pa.Table) -> Failover:
    """Return the verdict on the newest snapshot file of every partition, as its last replay compared it."""
    found = map(_newest_snapshot, newest_results(facts))
    return Failover.of(each for each in found if each is not None)


def _newest_snapshot(results: StoredResults) -> NewestSnapshot | None:
    """None for a partition that is gone."""
    if results.replayed is None:
        return None
    key = results.log_dir, results.topic, results.partition
    there = (
        each for each in reversed(results.snapshots.values()) if each.comparison.strict is not SnapshotVerdict.MISSING
    )
    newest = next(there, None)
    if newest is None:
        return NewestSnapshot(*key, offset=None, found=NO_FILE)
    found = newest.comparison
    return NewestSnapshot(
        *key, newest.offset, str(found.strict), found.lacking, found.differing, found.unexplained, found.says
    )


def audit_of_tables(findings: pa.Table, audits: pa.Table) -> Audit:
    """The newest audit of each partition in a log directory.

    An audit of one topic says nothing of the others, so the findings that an earlier one had there stay. They stay
    as well where the later one met damage: it did not see what lies behind. Each finding is told once.

    Args:
        findings: columns of AUDIT_COLUMNS.
        audits: columns of AUDITS_COLUMNS.
    """
    table = _newest(findings, audits)
    groups = table.group_by(list(_AUDIT_KEY)).aggregate([("kind", "count"), ("batches", "sum")])
    counts = groups.rename_columns([*_AUDIT_KEY, "findings", "batches"]).to_pylist()
    is_harmful = pc.not_equal(table["harm"], "NONE")
    parts = (table.filter(which).slice(0, MOST_ROWS) for which in (is_harmful, pc.invert(is_harmful)))
    worst = pa.concat_tables(parts).to_pylist()
    return Audit.of(msgspec.convert(counts, list[AuditCount]), msgspec.convert(worst, list[AuditRow]))


def _newest(findings: pa.Table, audits: pa.Table) -> pa.Table:
    whole = audits.filter(pc.equal(pc.fill_null(audits["damage_count"], 0), 0))
    since = whole.group_by(list(PARTITION_KEY)).aggregate([("run", "max")])
    joined = findings.join(since, keys=list(PARTITION_KEY), join_type="left outer")
    kept = joined.filter(pc.greater_equal(joined["run"], pc.fill_null(joined["run_max"], 0))).drop_columns("run_max")
    return _each_once(kept)


def _each_once(findings: pa.Table) -> pa.Table:
    """Return each finding once, as the last run told it."""
    # A join takes no null for another.
    columns = {name: findings[name] for name in _SAME}
    known = {name: pc.fill_null(each, -1) if pa.types.is_integer(each.type) else each for name, each in columns.items()}
    runs = pa.table({**known, "run": findings["run"], "row": pa.array(range(findings.num_rows), pa.int64())})
    last = runs.group_by(list(_SAME)).aggregate([("run", "max")])
    joined = runs.join(last, keys=list(_SAME), join_type="inner")
    rows = joined.filter(pc.equal(joined["run"], joined["run_max"]))["row"]
    return findings.take(rows.combine_chunks().sort())
