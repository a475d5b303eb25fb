"""Parsers against mutated real bytes: each answers or raises what it documents, soon, and in bounded memory.

Every input has a number; the same seed and number give the same bytes, so a failure is repeated by itself:
`python -m tests.fuzz.run --only "claim" --seed 1 --first 4711 --inputs 1`. A parser runs in a child, so that a
signal is a failure of its own and no end of the run.

Usage: python -m tests.fuzz.run [--seed N] [--inputs N in all] [--only NAME] [--first N]
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.mutate import mutated
from tests.fuzz.parsers import Parser, parsers

MEMORY = 768 << 20  # bytes of addresses beyond those in use when it begins
HANGS_AFTER_S = 20.0  # a machine may be loaded; an input takes less than a millisecond
LONGEST_MESSAGE = 1500


class _HangError(BaseException):
    pass


def share_of(parser: Parser, all_parsers: Sequence[Parser], inputs: int) -> int:
    """How many of the inputs are the parser's."""
    return max(1, inputs * parser.share // sum(each.share for each in all_parsers))


def fuzz(parser: Parser, seed: int, inputs: int, first: int = 0) -> str | None:
    """What went wrong first, or None; in a child of this process."""
    with tempfile.TemporaryDirectory(prefix="tiersnap-fuzz-") as folder:
        said, at = Path(folder) / "said", Path(folder) / "at"
        child = os.fork()
        if not child:
            code = 70
            try:
                code = _child(parser, seed, range(first, first + inputs), said, at)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if said.exists():
            return said.read_text()
        code = os.waitstatus_to_exitcode(status)
        number = at.read_text() if at.exists() else "?"
        return None if code == 0 else f"{parser.name}: ended with {code} near input {number} of seed {seed}"


def _child(parser: Parser, seed: int, numbers: range, said: Path, at: Path) -> int:
    tempfile.tempdir = str(said.parent)
    _limit_memory()
    signal.signal(signal.SIGALRM, _hang)
    for number in numbers:
        if number % 100 == 0:
            at.write_text(str(number))
            signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER_S)
        data = mutated(parser.seeds, Random(f"{parser.name} {seed} {number}"))
        problem = _problem(parser, data)
        if problem:
            said.write_text(f"{parser.name}: input {number} of seed {seed}: {problem}\n{data[:2000]!r}")
            return 1
    return 0


def _problem(parser: Parser, data: bytes) -> str | None:
    try:
        parser.read(data)
    except parser.errors as error:
        if len(str(error)) > LONGEST_MESSAGE:
            return f"an error of {len(str(error))} characters: {str(error)[:200]}"
    except (Exception, _HangError) as error:
        return f"{type(error).__name__}: {str(error)[:500]}"
    return None


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise _HangError(f"100 inputs took more than {HANGS_AFTER_S} s")


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def main() -> int:
    """1 if any parser failed; the seed is part of what is printed."""
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--inputs", type=int, default=50_000)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--only")
    given = options.parse_args()
    chosen = [parser for parser in parsers() if given.only in (None, parser.name)]
    failures = 0
    for parser in chosen:
        began, inputs = time.monotonic(), share_of(parser, chosen, given.inputs)
        problem = fuzz(parser, given.seed, inputs, given.first)
        failures += problem is not None
        print(problem or f"{parser.name}: {inputs} inputs, {time.monotonic() - began:.1f} s", flush=True)
    print(f"seed {given.seed}: {len(chosen)} parsers, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
