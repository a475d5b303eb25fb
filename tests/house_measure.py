"""How much there is to understand in the product. `make lint` fails if a figure exceeds its limit; lower limits freely.

Figures count statements and names, so neither packed nor unpacked lines change them.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("snapshot", "remote_storage", "jobs")
# The greatest values that `make lint` accepts; `python -m tests.house_measure` prints the figures of today.
LIMITS: Mapping[str, float] = {
    "tokens": 484_150,
    "branches": 14_632,
    "functions with more than 10 branches": 44,
    "dense functions (of 6 branches or more: three in four statements), %": 18,
    "comprehensions per 1,000 statements": 27.6,
    "conditional expressions per 1,000 statements": 11.6,
    "classes": 941,
    "pairs of classes that share five field names": 37,
    "functions outside gate/ that choose an exit code": 6,
    "docstrings with 'what is', 'what it', 'nobody has' and the like": 1,
}

_FEW, _SOME, _DENSE = 10, 6, 0.75
_SHARED_FIELDS = 5
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.AsyncFor, ast.comprehension, ast.match_case)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_NO_TOKENS = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING),
}
_EMPTY_NOUN = re.compile(
    r"\b(what|whatever|who|whoever|nobody|somebody) "
    r"(is|was|are|were|it|they|a|an|the|one|may|can|has|have|lies|there)\b",
    re.IGNORECASE,
)


def branches(function: ast.AST) -> int:
    """Return McCabe's number without nested functions; a boolean operator counts for each further operand."""
    count, todo = 1, list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            continue
        count += isinstance(node, _BRANCHES)
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        if isinstance(node, ast.comprehension):
            count += len(node.ifs)
        todo += ast.iter_child_nodes(node)
    return count


def statements(function: _Function) -> int:
    """Return the number of statements without the docstring and nested functions; at least 1."""
    todo: list[ast.AST] = list(function.body[1:] if ast.get_docstring(function) else function.body)
    count = 0
    while todo:
        node = todo.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        count += isinstance(node, ast.stmt)
        todo += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]
    return max(1, count)


def chooses_exit_code(function: _Function) -> bool:
    """Return whether a function names a member of ExitCode, or returns one."""
    owners = (each.value for each in ast.walk(function) if isinstance(each, ast.Attribute))
    returned = "" if function.returns is None else ast.unparse(function.returns)
    return any(map(_is_exit_code, owners)) or "ExitCode" in returned or "exit_code" in function.name


def _is_exit_code(owner: ast.expr) -> bool:
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name.endswith("ExitCode")


@dataclass
class House:
    """The counts of all modules that were added."""

    tokens: int = 0
    statements: int = 0
    comprehensions: int = 0
    conditionals: int = 0
    deciders: int = 0
    empty_nouns: int = 0
    functions: list[tuple[int, int]] = field(default_factory=list)  # branches and statements of each
    classes: list[set[str]] = field(default_factory=list)  # names of fields

    def add(self, source: str, *, is_gate: bool) -> None:
        """Count a module. `is_gate` is whether it lies in gate/, which chooses exit codes."""
        kinds = (each.type for each in tokenize.generate_tokens(io.StringIO(source).readline))
        self.tokens += sum(kind not in _NO_TOKENS for kind in kinds)
        for node in ast.walk(ast.parse(source)):
            self.statements += isinstance(node, ast.stmt)
            self.comprehensions += isinstance(node, _COMPREHENSIONS)
            self.conditionals += isinstance(node, ast.IfExp)
            if isinstance(node, _FUNCTIONS):
                self.functions.append((branches(node), statements(node)))
                self.deciders += not is_gate and chooses_exit_code(node)
            if isinstance(node, ast.ClassDef):
                self.classes.append(set(_fields(node)))
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Module)):
                self.empty_nouns += bool(_EMPTY_NOUN.search(ast.get_docstring(node) or ""))

    def figures(self) -> dict[str, float]:
        """Return the figures in the order of LIMITS."""
        some = [each for each in self.functions if each[0] >= _SOME]
        dense = [each for each in some if each[0] / each[1] >= _DENSE]
        large = [names for names in self.classes if len(names) >= _SHARED_FIELDS]
        found = (
            self.tokens,
            sum(number for number, _ in self.functions),
            sum(number > _FEW for number, _ in self.functions),
            round(100 * len(dense) / max(1, len(some))),
            round(1000 * self.comprehensions / max(1, self.statements), 1),
            round(1000 * self.conditionals / max(1, self.statements), 1),
            len(self.classes),
            sum(len(one & other) >= _SHARED_FIELDS for one, other in combinations(large, 2)),
            self.deciders,
            self.empty_nouns,
        )
        return dict(zip(LIMITS, found, strict=True))


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def measure() -> dict[str, float]:
    """Return the figures of the product."""
    house = House()
    for path in chain.from_iterable((ROOT / each).rglob("*.py") for each in PACKAGES):
        house.add(path.read_text(encoding="utf-8"), is_gate="gate" in path.parts)
    return house.figures()


def worse(figures: Mapping[str, float], limits: Mapping[str, float] = LIMITS) -> list[str]:
    """Return a sentence about each figure above its limit."""
    return [
        f"{name}: {value:,}, at most {limits[name]:,}: simplify, or raise the limit in tests/house_measure.py"
        for name, value in figures.items()
        if value > limits[name]
    ]


if __name__ == "__main__":
    print("\n".join(f'    "{name}": {value:_},' for name, value in measure().items()))
