"""Results as tables: plain text anywhere, and on a terminal no more than a person reads."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import ClassVar

import click
import pytest
from msgspec import UNSET, UnsetType

from tiersnap.jobs.cli.output import MOST_ON_TERMINAL, Format, Output

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class Found:
    COLUMNS: ClassVar = {"name": "Name", "size": "Bytes"}
    log_dir: str
    name: str
    size: int

    def rank(self) -> int:
        return -self.size


@dataclass(frozen=True)
class Total:
    NOT_TOLD: ClassVar = ("place",)
    bytes_read: int
    place: str | UnsetType = UNSET


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rows_have_a_column_of_log_dirs_if_they_are_of_several(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Found("/a", "orders-0", 1)]
    Output().rows(Found, rows)
    Output().rows(Found, rows, several=True)
    assert capsys.readouterr().out.splitlines() == [
        *("Name      Bytes", "orders-0      1"),
        *("log dir  Name      Bytes", "/a       orders-0      1"),
    ]


def test_rows_on_a_terminal_are_the_worst_and_name_the_line_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    rows = [Found("/a", f"t-{number}", number) for number in range(MOST_ON_TERMINAL + 10)]
    with click.Context(click.Command("scan"), info_name="tiersnap scan"):
        Output().rows(Found, rows)
    shown = out.getvalue().splitlines()
    assert (len(shown), shown[1].split()) == (MOST_ON_TERMINAL + 1, ["t-59", "59"])
    assert err.getvalue() == "50 of 60 rows printed; to print all: tiersnap scan | cat\n"


def test_rows_as_lines_of_json_end_with_the_summary_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []

    def rows():
        for size in (3, 4):
            seen.append(size)
            yield Found("/a", "t-0", size)

    Output(Format.JSONL).rows(Found, rows(), summary=lambda: Total(sum(seen), "here"))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {"log_dir": "/a", "name": "t-0", "size": 3}
    assert lines[-1] == {"summary": {"bytes_read": 7, "place": "here"}}


def test_summary_of_a_table_tells_sizes_and_leaves_out_what_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    Output().rows(Found, [], summary=Total(2048, "here"))
    assert capsys.readouterr().err == "bytes read: 2.0 KiB\n"


def test_name_that_is_no_text_is_a_row_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    row = Found("/a", "t\udce9t-0", 1)
    Output(Format.JSONL).rows(Found, [row])
    Output().rows(Found, [row])
    line, _, shown = capsys.readouterr().out.splitlines()
    assert json.loads(line)["name"] == "t\udce9t-0"
    assert shown.split()[0] == r"t\udce9t-0"


@pytest.mark.parametrize(("quiet", "said"), [(False, "one\ntwo\nthree\n"), (True, "three\n")])
def test_messages_stand_on_a_line_each(capsys: pytest.CaptureFixture[str], quiet: bool, said: str) -> None:
    output = Output(quiet=quiet)
    output.talk(*("one", "two"))
    output.talk()
    output.warn("three", *())
    assert capsys.readouterr().err == said
