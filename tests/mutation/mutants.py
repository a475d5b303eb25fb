"""Small changes to a module that a test ought to notice: comparisons, arithmetic, constants, conditions, calls.

The bodies of functions are changed, and what modules keep as data: cells of decision tables and values of dicts, each
for another one of its kind, and members of sets and tuples, which go. Annotations, docstrings, decorators and names of
errors say nothing that a test of behaviour could hold.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change: where, what it says now, and the module with it."""

    line: int
    change: str
    tree: ast.Module

    def name(self, path: str) -> str:
        """As survivors are listed and accepted: without the line, which moves."""
        return f"{path}: {self.change}"


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    found = []
    for position, (node, statement) in enumerate(_mutable(tree)):
        for change in _changes(node):
            changed = copy.deepcopy(tree)
            twin, around = list(_mutable(changed))[position]
            change(twin)
            before, after = _shown(statement), _shown(around)
            if after != before:
                ast.fix_missing_locations(changed)
                found.append(Mutant(statement.lineno, f"{before} -> {after}", changed))
    return sorted([*found, *mutants_of_data(tree)], key=lambda mutant: mutant.line)


def mutants_of_data(tree: ast.Module) -> Iterator[Mutant]:
    """Every mutant of tables (`read_table`), dicts, sets and tuples that a module assigns to a name."""
    for position, statement in enumerate(tree.body):
        value = getattr(statement, "value", None)
        changes: Iterator[tuple[str, ast.expr]] = iter(())
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "read_table":
            changes = _changed_tables(value)
        elif isinstance(value, ast.Dict):
            changes = _changed_dicts(value)
        elif isinstance(value, ast.expr):
            changes = _fewer_members(value)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        for change, changed in changes:
            twin = copy.deepcopy(tree)
            twin.body[position].value = changed  # type: ignore[attr-defined]
            yield Mutant(statement.lineno, f"{ast.unparse(target)} {change}", ast.fix_missing_locations(twin))


def _changed_tables(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """A cell for another one of its column, or of the columns that repeat cells, which are eras."""
    text = ast.literal_eval(call.args[0])
    header, *rows = ([cell.strip() for cell in line.split("|")] for line in text.strip().splitlines())
    written = [list(row) for row in rows]
    for row in rows:
        for column, cell in enumerate(row):
            row[column] = row[column - 1] if cell == "=" else cell
    of_eras = {column for row in written for column, cell in enumerate(row) if cell == "="}
    of_eras |= {column - 1 for column in of_eras}
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            kind = of_eras if column in of_eras else {column}
            others = sorted({each[other] for each in rows for other in kind} - {cell})
            if header[column] != "#" and others:
                changed = [list(each) for each in rows]
                changed[number][column] = others[(number + column) % len(others)]
                lines = [" | ".join(each) for each in (header, *changed)]
                key = row[0] or f"row {number}"
                what = f"{key}, {header[column]}: {cell} -> {changed[number][column]}"
                yield what, ast.Call(call.func, [ast.Constant("\n".join(lines))], [])


def _changed_dicts(given: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    """A value for that of the next key, where it is another one."""
    for number, (key, value) in enumerate(zip(given.keys, given.values, strict=True)):
        following = next(
            (each for each in given.values[number + 1 :] + given.values[:number] if _differ(each, value)), None
        )
        if key is not None and following is not None:
            values = [*given.values[:number], following, *given.values[number + 1 :]]
            yield f"{ast.unparse(key)}: {_short(value)} -> {_short(following)}", ast.Dict(given.keys, values)


def _fewer_members(given: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Several names or constants in a tuple or in frozenset({…}), each left out."""
    if isinstance(given, ast.Call) and ast.unparse(given.func) == "frozenset" and given.args:
        for change, members in _fewer_members(given.args[0]):
            yield change, ast.Call(given.func, [members], [])
    elif isinstance(given, ast.Tuple | ast.Set) and len(given.elts) > 1 and all(map(_is_plain, given.elts)):
        for member in given.elts:
            fewer = copy.copy(given)
            fewer.elts = [each for each in given.elts if each is not member]
            yield f"without {ast.unparse(member)}", fewer


def _is_plain(member: ast.expr) -> bool:
    return isinstance(member, ast.Name | ast.Attribute | ast.Constant | ast.Starred)


def _differ(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) != ast.unparse(other)


def _short(value: ast.expr) -> str:
    return " ".join(ast.unparse(value).split())


def _shown(statement: ast.stmt) -> str:
    """A statement on one line, without what is below it."""
    text = ast.unparse(statement)
    return text.splitlines()[0] if hasattr(statement, "body") else " ".join(text.split())


Place = tuple[ast.AST, ast.stmt]  # what may be changed, and the statement around it


def _mutable(tree: ast.Module) -> Iterator[Place]:
    """Expressions and statements inside functions, always in the same order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                yield from _below(statement, statement)


def _below(node: ast.AST, around: ast.stmt) -> Iterator[Place]:
    if isinstance(node, (ast.FunctionDef, ast.JoinedStr)) or _is_logging(node):
        return  # a function is walked by itself; what a message or a log says is not behaviour
    if isinstance(node, ast.stmt):
        around = node
    if isinstance(node, (ast.expr, ast.stmt)):
        yield node, around
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _below(child, around)


def _is_logging(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("_log.")


def _changes(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                yield _set_op(i, _SWAPPED[type(op)])
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            yield lambda twin: setattr(twin, "op", _ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op, values=values):
            yield lambda twin: setattr(twin, "op", ast.And() if isinstance(op, ast.Or) else ast.Or())
            for i in range(len(values)):
                yield _drop_value(i)
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare):
            yield lambda twin: setattr(twin, "test", ast.UnaryOp(ast.Not(), twin.test))  # type: ignore[attr-defined]
        case ast.Constant(value=bool()):
            yield lambda twin: setattr(twin, "value", not twin.value)  # type: ignore[attr-defined]
        case ast.Constant(value=int()):
            yield lambda twin: setattr(twin, "value", twin.value + 1)  # type: ignore[attr-defined]
        case ast.Name(id=name) if name in _NAMES:
            yield lambda twin: setattr(twin, "id", _NAMES[name])
        case ast.Expr(value=ast.Call()):
            yield lambda twin: setattr(twin, "value", ast.Constant(None))


def _set_op(i: int, op: type[ast.cmpop]) -> Callable[[ast.AST], None]:
    def change(twin: ast.AST) -> None:
        twin.ops[i] = op()  # type: ignore[attr-defined]

    return change


def _drop_value(i: int) -> Callable[[ast.AST], None]:
    def change(twin: ast.AST) -> None:
        is_or = isinstance(twin.op, ast.Or)  # type: ignore[attr-defined]
        twin.values[i] = ast.Constant(not is_or)  # type: ignore[attr-defined]

    return change
