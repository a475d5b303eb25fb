"""The record of pasted cures, and the table of docs/guarantees.md that is made of it: `make pasted-cures`.

tests/broker/test_pasted_cures.py writes a row of the record if RENEW_CURES is set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guarantees.md"
RECORD = ROOT / "tests" / "golden" / "pasted-cures.json"
_BEGIN, _END = "<!-- pasted cures -->\n", "<!-- end of pasted cures -->\n"
_HEADINGS = ("the broker", "Kafka, storage", "typed and pasted, with exit codes", "by hand", "seconds")


@dataclass(frozen=True, slots=True)
class PastedCure:
    """A situation that was cured.

    Attributes:
        kafka: release and mode.
        storage: of remote segments.
        rounds: how often `doctor` was typed.
        commands: name and exit code of each, `--apply` named.
        by_hand: what no command can do.
        seconds: from the first `doctor` to the end of the last one.
    """

    situation: str
    kafka: str
    storage: str
    rounds: int
    commands: list[str]
    by_hand: list[str]
    seconds: int

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells it from the others."""
        return self.situation, self.kafka, self.storage

    @property
    def cure(self) -> tuple[str, str, str]:
        """Return the cells that cures on several brokers share: situation, commands, work by hand."""
        commands = f"{len(self.commands)}: {', '.join(self.commands)}"
        return self.situation, commands, ", ".join(self.by_hand) or "nothing"


def read() -> list[PastedCure]:
    """Return the record."""
    return msgspec.json.decode(RECORD.read_bytes(), type=list[PastedCure]) if RECORD.exists() else []


def recorded(found: PastedCure) -> PastedCure | None:
    """Return the row of the record about the same situation."""
    return next((each for each in read() if each.key == found.key), None)


def write(found: PastedCure) -> None:
    """Put a row into the record."""
    rows = {each.key: each for each in (*read(), found)}
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode([rows[key] for key in sorted(rows)])) + b"\n")


def table_rows(cures: Iterable[PastedCure]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each cure, with all brokers on which it was tested."""
    by_cure: dict[tuple[str, str, str], list[PastedCure]] = {}
    for each in cures:
        by_cure.setdefault(each.cure, []).append(each)
    for (situation, commands, by_hand), same in by_cure.items():
        brokers = "; ".join(f"{each.kafka}, {each.storage}" for each in same)
        shortest, longest = min(each.seconds for each in same), max(each.seconds for each in same)
        seconds = str(longest) if shortest == longest else f"{shortest} to {longest}"
        yield situation, brokers, commands, by_hand, seconds


def page_with_table(page: str) -> str:
    """Return the page with the table of the record."""
    rows = (_HEADINGS, ["---"] * len(_HEADINGS), *table_rows(read()))
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"{before}{_BEGIN}\n{table}\n{_END}{after}"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        sys.exit(0 if page_with_table(text) == text else f"{PAGE}: stale; next: make pasted-cures")
    PAGE.write_text(page_with_table(text), encoding="utf-8")
