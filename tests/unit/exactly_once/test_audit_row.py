"""Findings of `audit` as the command prints them."""

from __future__ import annotations

from typing import Any

from tiersnap.jobs.commands.audit import AuditFinding
from tiersnap.snapshot.members import members
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.schemas import AUDIT_FINDINGS


def row(**values: object) -> dict[str, Any]:
    names = (name for name in AUDIT_FINDINGS.names if name != "run")
    given = {"log_dir": "/data", "topic": "orders", "partition": 3, "kind": "GAP", "rule": "1", "harm": "LOSS"}
    return {**dict.fromkeys(names), **given, "judgement": "LOST", "batches": 2, **values}


def test_a_finding_has_the_columns_of_the_table_as_members() -> None:
    given = row(segment_base_offset=42, position=7, timestamp=1_700_000_000_000)
    (found,) = Rows(AuditFinding).read_dicts([given])
    assert members(found) == given
    assert (found.segment_file, found.time) == (
        "/data/orders-3/00000000000000000042.log",
        "2023-11-14T22:13:20.000Z",
    )


def test_a_finding_without_a_batch_has_no_file_and_no_time() -> None:
    (found,) = Rows(AuditFinding).read_dicts([row()])
    assert (found.segment_file, found.time) == (None, None)
