"""What an audit can find: each kind has a rule that seeds.md numbers, and a harm that judgements can undo."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.reference.audit import audit
from tests.reference.audit_cases import CASES, Case, batch
from tests.reference.audit_logs import EXPIRATION, generated_log
from tests.reference.audited_log import CIRCLE, AuditedLog, aborted, holes, is_data, last_offset
from tests.reference.log_builder import TRANSACTIONAL
from tests.reference.record_batch import Batch
from tiersnap.snapshot.exactly_once.models.audit_rules import (
    CONFIDENCE,
    FORGOTTEN,
    JUDGEMENTS,
    MISSING,
    RULE,
    UNREAD,
    AuditKind,
    Confidence,
    Harm,
    LossVerdict,
    harm_of,
)

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[4] / "docs"
SEEDS = (DOCS / "contributing/seeds.md").read_text(encoding="utf-8")


def test_every_kind_has_one_rule_that_docs_seeds_numbers() -> None:
    cells = re.findall(r"^\| (\d[\d., ]+) \|", SEEDS, re.MULTILINE)
    numbers = {number for cell in cells for number in cell.split(", ")}
    assert set(RULE) == set(AuditKind)
    assert set(RULE.values()) <= numbers


def test_rule_and_harm_of_each_kind_are_those_of_docs_audit() -> None:
    page = (DOCS / "audit.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z_]+)` \| .* \| (\d\.\d+) \| ?([A-Z]*)", page, re.MULTILINE)
    told = {kind: (rule, harm or "NONE") for kind, rule, harm in rows}
    assert {str(kind): (RULE[kind], harm_of(kind, LossVerdict.HOLE)) for kind in AuditKind} == told


@pytest.mark.parametrize("kind", sorted(MISSING))
def test_what_is_missing_is_lost_only_where_records_are_gone(kind: AuditKind) -> None:
    lost = {judgement for judgement in JUDGEMENTS if harm_of(kind, judgement) is Harm.LOSS}
    assert lost == {LossVerdict.HOLE, LossVerdict.DIVERGED, LossVerdict.TRUNCATED}
    assert harm_of(kind, UNREAD) is Harm.NONE
    assert harm_of(kind, LossVerdict.HOLE, is_hidden=True) is Harm.LOSS


@pytest.mark.parametrize("kind", sorted(FORGOTTEN))
def test_what_no_reader_of_committed_records_gets_does_no_harm(kind: AuditKind) -> None:
    assert harm_of(kind, LossVerdict.STATE_LOST, is_hidden=True) is Harm.NONE


@pytest.mark.parametrize("numbers", ["next epoch", "other id", "older epoch"])
@pytest.mark.parametrize("in_flight", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_confidence_is_high_for_what_a_client_had_in_flight(numbers: str, in_flight: bool, several: bool) -> None:
    """As docs/audit.md says it, and as the first row that fits has it."""
    words = {"any", numbers}, {"any", "yes" if in_flight else "no"}, {"any", "several" if several else "one"}
    columns = ("numbers", "in flight", "records")
    row = next(
        row for row in CONFIDENCE if all(row[column] in fits for column, fits in zip(columns, words, strict=True))
    )
    if in_flight and (numbers == "next epoch" or (numbers == "other id" and several)):
        expected = Confidence.HIGH
    else:
        expected = Confidence.MEDIUM if several or (in_flight and numbers == "other id") else Confidence.LOW
    assert row["confidence"] == expected


def found(*batches: Batch, **log: object) -> list[tuple[str, int | None]]:
    """Kind and distance of what the plain reference finds in one segment, where positions say nothing."""
    base = batches[0].base_offset
    known = AuditedLog({base: list(batches)}, {base: None}, **log)  # type: ignore[arg-type]
    rows = [row for row in audit(known, expiration=EXPIRATION) if row["kind"] != "OUT_OF_ORDER_TIMESTAMPS"]
    return [(row["kind"], row.get("distance")) for row in rows]


def test_the_reference_gives_what_the_tables_of_the_scenarios_say() -> None:
    first, second = batch(0, 0), batch(10, 10)
    assert found(first, second, batch(20, 20)) == []
    assert found(first, second, batch(20, 0)) == [("DUPLICATE_EXACT", 20)], "T93"
    assert found(first, second, batch(20, 0), batch(30, 20)) == [("DUPLICATE_EXACT", 20)], "it goes on where it was"
    assert found(first, batch(10, 17)) == [("GAP", 7)]
    assert found(first, batch(10, 17), is_compacted=True) == [], "T89"
    assert found(batch(0, 5)) == [("FIRST_WRITE_LOST", 5)], "T92"
    assert found(batch(500, 5), log_start_offset=500) == []
    assert found(batch(0, 2**31 - 10), batch(10, 0), log_start_offset=1) == [], "the circle"
    assert found(first, batch(10, 5)) == [("DUPLICATE_PARTIAL", 5)]
    assert found(batch(1, 100), batch(11, 0), log_start_offset=1) == [("SEQ_RESET_SAME_EPOCH", 110)]
    assert found(first, batch(10, 0, epoch=1)) == []
    assert found(first, batch(10, 4, epoch=1)) == [("BUMP_NONZERO", 4)]
    assert found(batch(0, 0, epoch=1), batch(10, 0)) == [("EPOCH_REGRESSION", None)]
    assert found(batch(0, 0, attributes=TRANSACTIONAL), batch(10, 10)) == [
        ("NON_TRANSACTIONAL_IN_TRANSACTION", None),
        ("OPEN_TRANSACTION", None),
    ], "T52"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_the_reference_finds_what_each_case_says(case: Case) -> None:
    rows = [(row["kind"], row["harm"], row["first_offset"]) for row in audit(case.log, expiration=EXPIRATION)]
    assert sorted(rows, key=lambda row: row[2]) == list(case.found)


def got_before(log: AuditedLog) -> dict[int, bool]:
    """By base offset, of each data batch: whether readers of committed records get it, and got some sequence before."""
    hidden = aborted(log)
    got: dict[tuple[int, int], set[int]] = defaultdict(set)
    found = {}
    for each in filter(is_data, log.batches):
        read = got[each.producer_id, each.producer_epoch]
        sequences = {(each.base_sequence + step) % CIRCLE for step in range(each.last_offset_delta + 1)}
        is_read = each.base_offset not in hidden and last_offset(each) >= log.log_start_offset
        found[each.base_offset] = is_read and bool(read & sequences)
        read.update(sequences if is_read else ())
    return found


def test_a_duplicate_does_harm_where_readers_got_one_of_its_sequences_before() -> None:
    told = Counter()
    for log in map(generated_log, range(400)):
        doubled = got_before(log)
        for row in audit(log, expiration=EXPIRATION):
            if row["kind"].startswith("DUPLICATE"):
                told[row["kind"], row["harm"], doubled[row["first_offset"]]] += 1
    for kind in (AuditKind.DUPLICATE_EXACT, AuditKind.DUPLICATE_PARTIAL):
        assert told[kind, "DUPLICATE", True]
        assert told[kind, "NONE", False]
        assert not told[kind, "NONE", True]
    assert not told[AuditKind.DUPLICATE_EXACT, "DUPLICATE", False]


def test_entries_of_old_formats_are_no_hole_and_a_segment_that_gave_no_row_is_unread() -> None:
    early, late = batch(0, 0), batch(30, 10, position=0)
    assert holes(AuditedLog({0: [early], 30: [late]}, {0: 62, 30: 62})) == [(10, 30, False)]
    assert holes(AuditedLog({0: [early], 30: [late]}, {0: 90, 30: 62})) == [(10, 30, True)]
    assert holes(AuditedLog({0: [early], 30: [late]}, {0: 62, 30: 62}, listed=(0, 10, 30))) == [(10, 30, True)]


def test_a_log_as_brokers_write_it_has_no_harm() -> None:
    sound = [log for log in map(generated_log, range(0, 400, 4)) if not log.is_compacted]
    harms = {(row["kind"], row["harm"]) for log in sound for row in audit(log, expiration=EXPIRATION)}
    assert sound
    assert {kind for kind, harm in harms if harm in ("DUPLICATE", "FENCING")} == set()
