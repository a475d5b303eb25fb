"""Tables: a line a row in a pipe, and never wider than a terminal, with every value whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.command import tiersnap
from tests.reference.recovered import DATA
from tiersnap.jobs.cli.table import folded, lines_of_table

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
LOGS = DATA / "ledger-2.7.2" / "logs"

WORDS = st.text("abcxyz_", min_size=1, max_size=12)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)
TABLES = st.integers(1, 9).flatmap(
    lambda columns: st.lists(st.lists(TEXTS, min_size=columns, max_size=columns), min_size=1, max_size=6)
)


def test_lines_of_table_align_numbers_to_the_right_and_end_without_blanks() -> None:
    cells = [["name", "bytes", "reason"], ["orders-0", "5", ""], ["o", "1234567", "x"]]
    assert list(lines_of_table(cells, [False, True, False], None)) == [
        "name        bytes  reason",
        "orders-0        5",
        "o         1234567  x",
    ]


def test_lines_of_table_fold_a_sentence_between_its_words() -> None:
    cells = [["name", "reason"], ["orders-0", "an open transaction of a producer that died"]]
    assert list(lines_of_table(cells, [False, False], 36)) == [
        "name      reason",
        "orders-0  an open transaction of a",
        "          producer that died",
    ]


def test_lines_of_table_write_a_narrow_sentence_once_below_rows_that_share_it() -> None:
    reason, line = "no partition.metadata in this folder", "start it, or tiersnap tier LOGDIR --topic-ids FILE"
    rows = [[name, "TOPIC_ID_UNKNOWN", reason, line] for name in ("a-0", "b-0")]
    cells = [["name", "verdict", "reason", "next step"], *rows, ["c-0", "READY", "", ""]]
    assert list(lines_of_table(cells, [False] * 4, 30)) == [
        "name  verdict",
        "a-0   TOPIC_ID_UNKNOWN",
        "b-0   TOPIC_ID_UNKNOWN",
        "  reason: no",
        "    partition.metadata in this",
        "    folder",
        f"  next step: {line}",
        "c-0   READY",
    ]


@given(TABLES, st.integers(24, 120))
def test_lines_of_table_are_no_wider_than_the_terminal_and_lose_no_value(cells: list[list[str]], width: int) -> None:
    lines = list(lines_of_table(cells, [False] * len(cells[0]), width))
    assert [line for line in lines if len(line) > width] == []
    shown = [word for line in lines for word in line.split()]
    rows = [word for row in cells[1:] for text in dict.fromkeys(row) for word in text.split()]
    assert set(rows) <= set(shown)


@given(TABLES)
def test_lines_of_table_in_a_pipe_are_one_a_row(cells: list[list[str]]) -> None:
    assert len(list(lines_of_table(cells, [False] * len(cells[0]), None))) == len(cells)


def test_folded_keeps_a_command_whole_and_says_something_of_nothing() -> None:
    assert folded("type tiersnap scan /var/lib/kafka/data", 24, "next ") == [
        "next type tiersnap scan /var/lib/kafka/data"
    ]
    assert folded("", 24, "next ") == ["next "]


def lines_on_terminal(columns: int, *words: str) -> list[str]:
    """Return what a command prints on a pseudo terminal of this width."""
    reader, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "tests.reference.tiersnap", *words]
    text = b""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=terminal, stderr=subprocess.DEVNULL, env=environment | {"NO_COLOR": "1"}
    ):
        os.close(terminal)
        with contextlib.suppress(OSError):  # the other side is closed
            while part := os.read(reader, 4096):
                text += part
    os.close(reader)
    return text.decode().splitlines()


@pytest.mark.parametrize(("columns", "words"), [(60, ("scan",)), (40, ("scan", "--segments"))])
def test_table_on_a_terminal_that_is_narrower_keeps_its_width_and_every_value(
    columns: int, words: tuple[str, ...]
) -> None:
    plain = tiersnap(*words, LOGS, output="table").out.splitlines()
    assert max(map(len, plain)) > columns, "the table is wider than the terminal"
    lines = lines_on_terminal(columns, *words, str(LOGS))
    assert max(len(line) for line in lines if "tiersnap " not in line) <= columns, "commands stay whole"
    assert set(re.findall(r"[A-Z_]{5,}", " ".join(lines))) == set(re.findall(r"[A-Z_]{5,}", " ".join(plain)))
    assert {line.split()[0] for line in plain} <= set(" ".join(lines).split())
