"""Parse docs/runbook.md into entries and table rows, and find the entries for a word.

The package contains docs/runbook.md, so that a host without network can print it. A word is one of these: a title, a
verdict, a finding, an action, the number or name of an exit code, or a text that the runbook quotes, such as a log
line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib import resources
from itertools import chain
from typing import ClassVar

_SECTIONS = re.compile(r"^(##+) (.+)\n", re.MULTILINE)
_ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\(#([\w-]+)\)")
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"\n]{8,})\"")
_SYMPTOMS = "What you see"
_SYMPTOM = "**Symptom:**"  # entries with this text describe a symptom; the other entries explain words in tables
_SHORTEST = 4  # characters; a shorter word must equal a name, and is not searched inside titles and texts
_MOST_NEAR = 3


@dataclass(frozen=True, slots=True)
class RunbookEntry:
    """A section of the runbook, or a row of a table in the runbook."""

    COLUMNS: ClassVar = ("entry", "answers")
    entry: str  # title of the section, or the word that the row explains
    section: str  # title of the section, or of the section that contains the row
    answers: str  # symptoms that lead to the section, or words that it explains
    text: str  # Markdown

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the entry in lower case. The row `6: PARTIAL` has the names `6` and `partial`."""
        if self.is_row:
            return tuple(re.split(r"[,:] ", self.entry.replace("`", "").lower()))
        return (self.entry.lower(),)

    @property
    def is_row(self) -> bool:
        """Return whether the entry is a row of a table."""
        return self.entry != self.section

    @property
    def is_table(self) -> bool:
        """Return whether the entry is a section with a table that explains words. Its rows are entries too."""
        return _SYMPTOM not in self.text and _ROW.search(self.text) is not None

    @property
    def links(self) -> tuple[str, ...]:
        """Return the anchors of other entries that the text links to."""
        return tuple(dict.fromkeys(_LINK.findall(self.text)))


@dataclass(frozen=True, slots=True)
class Runbook:
    """The entries of the runbook.

    Attributes:
        entries: all sections, in the order of the page.
        rows: the rows of tables that explain words.
        symptoms: the rows of the table of symptoms.
    """

    entries: tuple[RunbookEntry, ...]
    rows: tuple[RunbookEntry, ...]
    symptoms: tuple[RunbookEntry, ...]

    def find(self, word: str) -> tuple[RunbookEntry, ...]:
        """Return the entries for a word, table rows first. Return an empty tuple if no search finds an entry."""
        return next(filter(None, self._answers(word)), ())

    def _answers(self, word: str) -> Iterator[tuple[RunbookEntry, ...]]:
        """Yield the result of each search for a word, from the strictest search to the loosest."""
        wanted = word.strip().removeprefix("exit code ").lower()
        yield self._titled(wanted)
        rows = [each for each in self.rows if wanted in each.names]
        whole_word = re.compile(rf"\b{re.escape(word.strip())}\b")
        symptoms = [each for each in self.symptoms if whole_word.search(each.entry)]
        if rows:
            yield tuple(dict.fromkeys([*rows, *self._linked([*rows, *symptoms])]))
        yield self._with_title_containing(wanted)
        yield self._linked(symptoms)
        yield self._of_quoted_symptoms(word)
        yield self._quoting(word)
        yield self._with_text_containing(wanted)

    def near(self, word: str) -> list[str]:
        """Return the names of entries with a spelling similar to `word`."""
        names: dict[str, str] = {}
        for each in (*self.rows, *self.entries):
            names |= dict.fromkeys(each.names, each.entry.replace("`", ""))
        found = get_close_matches(word.lower(), names, n=_MOST_NEAR, cutoff=0.5)
        return list(dict.fromkeys(names[each] for each in found))

    def _titled(self, wanted: str) -> tuple[RunbookEntry, ...]:
        return tuple(each for each in self.entries if wanted in (each.entry.lower(), anchor_of(each.entry)))

    def _with_title_containing(self, wanted: str) -> tuple[RunbookEntry, ...]:
        if len(wanted) < _SHORTEST:
            return ()
        return tuple(each for each in self.entries if wanted in each.entry.lower())

    def _linked(self, rows: Sequence[RunbookEntry]) -> tuple[RunbookEntry, ...]:
        """Return the entries that the rows link to, except entries that are tables."""
        by_anchor = {anchor_of(each.entry): each for each in self.entries if not each.is_table}
        links = chain.from_iterable(row.links for row in rows)
        return tuple(dict.fromkeys(filter(None, map(by_anchor.get, links))))

    def _of_quoted_symptoms(self, word: str) -> tuple[RunbookEntry, ...]:
        """Return the entries for the symptoms whose quoted text occurs in `word`, such as a pasted log line."""
        return self._linked([each for each in self.symptoms if _quotes(each.entry, word)])

    def _quoting(self, word: str) -> tuple[RunbookEntry, ...]:
        return tuple(each for each in self._of_symptoms() if _quotes(each.text, word))

    def _with_text_containing(self, wanted: str) -> tuple[RunbookEntry, ...]:
        if len(wanted) < _SHORTEST:
            return ()
        return tuple(each for each in self._of_symptoms() if wanted in each.text.lower())

    def _of_symptoms(self) -> Iterator[RunbookEntry]:
        return (each for each in self.entries if _SYMPTOM in each.text)


def _quotes(text: str, word: str) -> bool:
    """Return whether `word` contains one of the phrases that `text` quotes.

    In such a phrase, `…` matches any text, and a number matches any number.
    """
    for code, said in _QUOTED.findall(text):
        phrase = code or said
        if _is_common(phrase):
            continue
        pattern = re.sub(r"\d+", r"\\d+", re.escape(phrase)).replace("…", ".*")
        if re.search(pattern, word):
            return True
    return False


def _is_common(phrase: str) -> bool:
    """Return whether a quotation is too common to identify an entry: a short or plain word, or a tiersnap command."""
    is_plain_word = " " not in phrase and not re.search("[A-Z_]", phrase)  # such as `doctor`
    return is_plain_word or len(phrase) < _SHORTEST or phrase.startswith("tiersnap ")


def plain(text: str) -> str:
    """Return a line of Markdown as plain text, without links, bold marks and backticks."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("**", "").replace("`", "")


def anchor_of(title: str) -> str:
    """Return the anchor that Markdown links to a heading use: `exit-codes` for `Exit codes`."""
    return re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-")


@cache
def runbook() -> Runbook:
    """Return the runbook that the package contains."""
    return parse(resources.files("tiersnap").joinpath("runbook.md").read_text(encoding="utf-8"))


def parse(text: str) -> Runbook:
    """Return the runbook of a Markdown text. `##` begins an entry, and `###` begins a nested entry."""
    entries: list[RunbookEntry] = []
    rows: list[RunbookEntry] = []
    symptoms: list[RunbookEntry] = []
    starts = list(_SECTIONS.finditer(text))
    for number, start in enumerate(starts):
        later = (each.start() for each in starts[number + 1 :] if len(each[1]) <= len(start[1]))
        body, title = text[start.end() : next(later, len(text))].strip(), start[2]
        own = list(_rows(_SECTIONS.split(body)[0], title))
        if title == _SYMPTOMS:
            symptoms += own
            continue
        entry = RunbookEntry(title, title, ", ".join(plain(each.entry) for each in own), body)
        entries.append(entry)
        if entry.is_table:
            rows += own
    led_to: dict[str, str] = {}
    for each in reversed(symptoms):
        led_to |= dict.fromkeys(each.links, plain(each.entry))
    for number, each in enumerate(entries):
        if not each.is_table:
            entries[number] = replace(each, answers=led_to.get(anchor_of(each.entry), ""))
    return Runbook(tuple(entries), tuple(rows), tuple(symptoms))


def _rows(text: str, section: str) -> Iterator[RunbookEntry]:
    """Yield the table rows of a section. The text of a row has a line `column: cell` for each cell after the first."""
    columns: list[str] = []
    for line in text.splitlines():
        found = _ROW.fullmatch(line)
        if found is None:
            columns = []
        elif not columns:
            columns = found[1].split(" | ")
        elif not line.startswith("| ---"):
            name, *cells = found[1].split(" | ")
            told = "\n".join(f"{column}: {cell}" for column, cell in zip(columns[1:], cells, strict=True))
            yield RunbookEntry(name, section, "", told)
