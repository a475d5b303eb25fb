"""50,000 mutated inputs a run, spread over all parsers; `make soak` gives a million, with a seed of the day."""

from __future__ import annotations

import faulthandler
import os

import pytest

from tests.fuzz.parsers import Parser, parsers
from tests.fuzz.run import fuzz, share_of

pytestmark = pytest.mark.unit

INPUTS, SEED = 50_000, 20_261_122
PARSERS = parsers()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_parser_answers_or_says_what_is_wrong_whatever_the_bytes(parser: Parser) -> None:
    problem = fuzz(parser, SEED, share_of(parser, PARSERS, INPUTS))
    assert problem is None, problem


def wrong_answer(data: bytes) -> None:
    assert data.startswith(b"0\n")


def endless(data: bytes) -> None:
    memory = [data]
    while data != b"0\n1\n":
        memory.append(bytes(1 << 26))


def abort(data: bytes) -> None:
    if data != b"0\n1\n":
        faulthandler.disable()  # or pytest's prints every frame
        os.abort()


@pytest.mark.parametrize(
    ("read", "said"), [(wrong_answer, "AssertionError"), (endless, "MemoryError"), (abort, "ended with -6")]
)
def test_a_wrong_answer_a_signal_and_endless_memory_are_failures_with_their_seed(read, said: str) -> None:
    problem = fuzz(Parser("odd", [b"0\n1\n"], read), 7, 300)
    assert problem is not None
    assert said in problem
    assert "of seed 7" in problem
