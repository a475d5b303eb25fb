"""`make mutate`: break each target in one place, run its tests, and list what no test noticed.

A mutant is never on disk: a forked child compiles it in place of the module. So nothing has to be put back, and tests
of programs of their own (which would import the module as it is) do not count.

Usage: python -m tests.mutation.run [--seed N] [--sample N] [PATH…]
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import CodeType, ModuleType

from tests.mutation import reverted
from tests.mutation.dangers import DANGERS, Danger
from tests.mutation.defects import DEFECTS
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.targets import TARGETS, Target

ROOT = Path(__file__).resolve().parents[2]
ACCEPTED = Path(__file__).with_name("accepted.txt")
GOAL = 0.9
_BROKEN = 70
LIMIT_SECONDS = 240  # of CPU: a mutant that goes on for ever is noticed
LIMIT_BYTES = 6 << 30  # so is one that takes more and more memory


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, tree: ast.Module) -> None:
        super().__init__(fullname, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Gives the mutant in place of one module."""

    def __init__(self, target: Target, tree: ast.Module) -> None:
        self._target, self._tree = target, tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._target.module:
            return None
        file = str(ROOT / "src/tiersnap" / self._target.path)
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self._tree))


def _passes(target: Target, tree: ast.Module) -> bool:
    """Whether the target's tests pass with the module as `tree`, in a child of this process."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == _BROKEN:
            raise SystemExit(f"{target.path}: the runner itself failed")
        return code == 0
    stderr = os.dup(2)
    try:
        _run(target, tree)
    except BaseException:
        os.write(stderr, traceback.format_exc().encode())
    os._exit(_BROKEN)


def _run(target: Target, tree: ast.Module) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    signal.alarm(LIMIT_SECONDS * 4)
    os.environ.update(target.environment)
    # Modules that take in a mutant when they are compiled must not find those of another.
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _Finder(target, tree))
    with tempfile.TemporaryDirectory(prefix="tiersnap-mutant-") as folder:
        log = os.open(Path(folder) / "log", os.O_RDWR | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutation.plugin", f"--basetemp={folder}/tests"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is there already
        code = pytest.main([*options, *(f"tests/unit/{name}" for name in target.tests)])
        if os.environ.get("TIERSNAP_MUTANT_LOG"):
            Path(os.environ["TIERSNAP_MUTANT_LOG"]).write_bytes((Path(folder) / "log").read_bytes())
    os._exit(int(code))


@dataclass
class Tally:
    """What became of the mutants of one target."""

    killed: int = 0
    survived: int = 0
    accepted: int = 0


def _accepted() -> set[str]:
    """Names of survivors that are as good as the original; a line `#` says why."""
    lines = ACCEPTED.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def _chosen(target: Target, seed: int, sample: int) -> list[Mutant]:
    source = (ROOT / target.path).read_text(encoding="utf-8")
    found = mutants_of(source)
    taken = Random(f"{seed} {target.path}").sample(found, min(sample, len(found))) if sample else found
    dangers = []
    for danger in DANGERS:
        if danger.path == target.path:
            dangers.append(Mutant(0, f"danger: {danger.name}", _broken(danger)))
    return [*dangers, *sorted(taken, key=lambda mutant: mutant.line)]


def _broken(danger: Danger) -> ast.Module:
    source = (ROOT / danger.path).read_text(encoding="utf-8")
    if source.count(danger.before) != 1:
        raise SystemExit(f"{danger.path}: {danger.before!r} is there {source.count(danger.before)} times")
    return ast.parse(source.replace(danger.before, danger.after))


def _revert(danger: Danger, tests: tuple[str, ...]) -> Tally:
    if _passes(Target(danger.path, tests), _broken(danger)):
        print(f"SURVIVED {danger.path}: {danger.name}", flush=True)
        return Tally(survived=1)
    return Tally(killed=1)


def _mutate(target: Target, seed: int, sample: int, accepted: set[str]) -> Tally:
    tally = Tally()
    original = ast.parse((ROOT / target.path).read_text(encoding="utf-8"))
    if not _passes(target, original):
        raise SystemExit(f"{target.path}: its tests fail without any mutant: {' '.join(target.tests)}")
    for mutant in _chosen(target, seed, sample):
        name = mutant.name(target.path)
        if name in accepted:
            tally.accepted += 1
        elif _passes(target, mutant.tree):
            tally.survived += 1
            print(f"SURVIVED line {mutant.line}  {name}", flush=True)
        else:
            tally.killed += 1
    return tally


def main() -> int:
    """0 if at least `GOAL` of the mutants were noticed, dangers among them, and every fix that was reverted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0, help="mutants a module, all by default")
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args()
    # What every child needs, loaded once; not numba, which reads the target's environment when it is loaded.
    import hypothesis  # noqa: F401
    import numpy as np  # noqa: F401
    import pyarrow.fs  # noqa: F401
    import pytest  # noqa: F401

    # Compiled kernels of the original are loaded from the cache; those of a target run uncompiled.
    accepted, total, began = _accepted(), Tally(), time.monotonic()
    for target in TARGETS:
        if given.paths and target.path not in given.paths:
            continue
        tally = _mutate(target, given.seed, given.sample, accepted)
        print(f"{target.path}: {tally.killed} killed, {tally.survived} survived, {tally.accepted} accepted", flush=True)
        total.killed += tally.killed
        total.survived += tally.survived
    missed = 0
    for danger, tests in [*((each, reverted.TESTS) for each in reverted.REVERTED), *DEFECTS]:
        if not given.paths or danger.path in given.paths:
            tally = _revert(danger, tests)
            missed += tally.survived
            total.killed += tally.killed
            total.survived += tally.survived
    tried = total.killed + total.survived
    share = total.killed / tried if tried else 1.0
    print(f"{share:.1%} of {tried} mutants killed, seed {given.seed}, {time.monotonic() - began:.0f} s")
    return 0 if share >= GOAL and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
