"""The runner of mutants itself: what it changes, and that each danger still names a condition of today's code."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.dangers import DANGERS, Danger
from tests.mutation.defects import DEFECTS
from tests.mutation.mutants import mutants_of
from tests.mutation.reverted import REVERTED
from tests.mutation.targets import TARGETS
from tests.reference.recovered import TESTS

pytestmark = pytest.mark.unit


CURED = [defect.danger for defect in DEFECTS]


@pytest.mark.parametrize("danger", [*DANGERS, *REVERTED, *CURED], ids=lambda danger: danger.name)
def test_a_danger_is_one_place_of_a_target_and_the_broken_module_can_be_compiled(danger: Danger) -> None:
    source = (TESTS.parent / danger.path).read_text()
    assert source.count(danger.before) == 1
    assert danger in REVERTED or danger in CURED or danger.path in {target.path for target in TARGETS}
    compile(ast.parse(source.replace(danger.before, danger.after)), danger.path, "exec")


def test_the_tests_of_every_target_exist() -> None:
    for target in TARGETS:
        assert (TESTS.parent / target.path).exists()
        assert all((TESTS / "unit" / name).exists() for name in target.tests), target
    for defect in DEFECTS:
        for name in defect.tests:
            file, _, test = name.partition("::")
            assert f"def {test}(" in (TESTS / "unit" / file).read_text(), name


def test_each_mutant_is_one_change_and_messages_and_annotations_stay() -> None:
    source = (
        'def f(x: int) -> int:\n    """1 < 2."""\n    if x < 1 and x:\n'
        '        raise ValueError(f"{x + 1}")\n    return x + 2\n'
    )
    changes = [mutant.change for mutant in mutants_of(source)]
    assert changes == [
        "if x < 1 and x: -> if not (x < 1 and x):",
        "if x < 1 and x: -> if x < 1 or x:",
        "if x < 1 and x: -> if True and x:",
        "if x < 1 and x: -> if x < 1 and True:",
        "if x < 1 and x: -> if x <= 1 and x:",
        "if x < 1 and x: -> if x < 2 and x:",
        "return x + 2 -> return x - 2",
        "return x + 2 -> return x + 3",
    ]


def test_data_of_a_module_is_changed_cell_by_cell_and_value_by_value() -> None:
    source = (
        'TABLE = read_table("""\n # | error | B0 | B1\n 1 | one | ok | =\n 2 | two | no | ok\n""")\n'
        "_SAYS = {1: 'one', 2: 'two'}\n"
        "_KEPT = frozenset({A.ONE, A.TWO})\n"
        "_NAMES = ('one', *_OTHERS)\n"
        "_ONE = ('one',)\n"
    )
    changes = [mutant.change for mutant in mutants_of(source)]
    assert changes == [
        "TABLE 1, error: one -> two",
        "TABLE 1, B0: ok -> no",
        "TABLE 1, B1: ok -> no",
        "TABLE 2, error: two -> one",
        "TABLE 2, B0: no -> ok",
        "TABLE 2, B1: ok -> no",
        "_SAYS 1: 'one' -> 'two'",
        "_SAYS 2: 'two' -> 'one'",
        "_KEPT without A.ONE",
        "_KEPT without A.TWO",
        "_NAMES without 'one'",
        "_NAMES without *_OTHERS",
    ]
    for mutant in mutants_of(source):
        compile(mutant.tree, "module", "exec")
