"""Format Markdown of the runbook and of docs/kips.md for a terminal, with each command on its own line."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from tiersnap.jobs.cli.runbook import RunbookEntry, plain

_COMMAND = re.compile(r"`((?:sudo (?:-u \S+ )?)?(?:tiersnap|kafka-\S+|tune2fs) [^`]+)`", re.DOTALL)
_STEP = re.compile(r"(\d+\. |- )")
_CELL_OF_ROW = re.compile(r"\w[\w ]*: ")
_CELL = re.compile(r"(?<!\\) \| ")


def lines_of(entry: RunbookEntry, width: int) -> Iterator[str]:
    """Yield the lines of an entry, at most `width` columns wide. Commands are not wrapped."""
    if not entry.is_row:
        yield from lines_of_markdown(plain(entry.entry).upper(), entry.text, width)
        return
    yield f"{plain(entry.entry)} ({plain(entry.section)})"
    for block in _blocks(entry.text, _CELL_OF_ROW):
        yield from _lines_of_block(block, width)


def lines_of_markdown(heading: str, text: str, width: int) -> Iterator[str]:
    """Yield the lines of a heading and a Markdown text, at most `width` columns wide. Fenced text is not wrapped."""
    yield heading
    for block in _blocks(text, _STEP):
        yield ""
        yield from _lines_of_block(block, width)


def _blocks(text: str, opens: re.Pattern[str]) -> Iterator[list[str]]:
    """Yield the lines of each block: a table, a fenced text or a paragraph.

    If a line of a paragraph matches `opens`, this line begins a new block.
    """
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        if paragraph.startswith(("|", "```")):
            yield lines
            continue
        block: list[str] = []
        for line in lines:
            if block and opens.match(line):
                yield block
                block = []
            block.append(line)
        if block:
            yield block


def _lines_of_block(block: list[str], width: int) -> Iterator[str]:
    if block[0].startswith("|"):
        yield from _lines_of_table(block, width)
    elif block[0].startswith("```"):
        yield from _lines_of_terminal(block[1:-1])
    elif block[0].startswith("#"):
        yield plain(block[0].lstrip("# "))
    else:
        mark = ""
        if step := _STEP.match(block[0]):
            mark = step[1]
        told = " ".join(map(str.strip, block)).removeprefix(mark)
        yield from _lines_of_text(told, mark, " " * len(mark), width)


def _lines_of_terminal(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a terminal session. If all are commands, remove the prompts, so that users can paste them."""
    if all(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines]
    for line in lines:
        yield f"    {line}"


def _lines_of_table(block: list[str], width: int) -> Iterator[str]:
    heading, _, *rows = map(_cells_of, block)
    for name, *cells in rows:
        columns = list(zip(heading[1:], cells, strict=True))
        if len(columns) > 1:
            cells = list(map(": ".join, columns))
        yield from _wrapped(f"{name} -> {'; '.join(cells)}", "  ", "      ", width)


def _cells_of(line: str) -> list[str]:
    return list(map(plain, _CELL.split(line.strip("| "))))


def _lines_of_text(told: str, first: str, later: str, width: int) -> Iterator[str]:
    """Yield the lines of the wrapped text. Each command has a line of its own, which is not wrapped."""
    before, *parts = _COMMAND.split(told)
    yield from _wrapped(plain(before).strip(), first, later, width)
    for command, after in zip(parts[::2], parts[1::2], strict=True):
        yield f"{later}    {' '.join(command.split())}"
        yield from _wrapped(plain(after).lstrip(" .,;)").rstrip(), later, later, width)


def _wrapped(told: str, first: str, later: str, width: int) -> Iterable[str]:
    return textwrap.wrap(
        told, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
