"""Findings of `audit` as the command prints them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tiersnap.jobs.commands.audit import AuditFinding
from tiersnap.jobs.commands.audit import _paragraph as paragraph_of
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind
from tiersnap.snapshot.members import members
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.spark_made_tables import AUDIT_FINDINGS


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


def said(**values: object) -> tuple[str, str]:
    (found,) = Rows(AuditFinding).read_dicts([row(**values)])
    paragraph = paragraph_of(found)
    return paragraph.heading, paragraph.sentence


def test_a_duplicate_is_told_with_both_places() -> None:
    given = {"kind": "DUPLICATE_EXACT", "harm": "DUPLICATE", "producer_id": 7, "producer_epoch": 2}
    offsets = {"before_first_offset": 223, "before_last_offset": 223, "first_offset": 405, "last_offset": 409}
    place = {"segment_base_offset": 400, "position": 61, "timestamp": 1_700_000_000_000}
    assert said(**given, **offsets, **place, transactional_id="pay 1") == (
        "DUPLICATE DUPLICATE_EXACT orders-3, producer 7 epoch 2 (pay 1)",
        "The batch at offset 223 is in the log again at offsets 405 to 409. LOST. "
        "/data/orders-3/00000000000000000400.log, byte 61, 2023-11-14T22:13:20.000Z.",
    )


@pytest.mark.parametrize("kind", AuditKind)
def test_each_kind_is_told_in_a_sentence(kind: AuditKind) -> None:
    numbers = {
        name: 7 for name in AUDIT_FINDINGS.names if name.endswith(("offset", "sequence", "epoch", "producer_id"))
    }
    heading, sentence = said(
        **numbers, kind=str(kind), distance=3, batches=4, confidence="HIGH", position=0, timestamp=0
    )
    assert str(kind) in heading
    assert re.match(r"[A-Z0-9].*\. LOST\. /data/orders-3/0{19}7\.log, byte 0, 1970-01-01T00:00:00\.000Z\.$", sentence)
    assert "None" not in sentence and "{" not in sentence
