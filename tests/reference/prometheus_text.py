"""Prometheus' text format 0.0.4, parsed by its grammar and independently of what writes it."""

from __future__ import annotations

import re

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_LINE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? ([-+0-9.eE]+|NaN|[+-]Inf)$")


def parse(text: str) -> tuple[Series, dict[str, str]]:
    """Values by name and labels, and the type of each family; families must not be torn apart or told twice."""
    assert text.endswith("\n")
    series: Series = {}
    types: dict[str, str] = {}
    helped: set[str] = set()
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in helped, line
            helped.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert (name, kind in ("gauge", "counter", "untyped")) == (family, True), line
            types[name] = kind
        else:
            found = _LINE.fullmatch(line)
            assert found, line
            assert found[1] == family, line
            key = (found[1], frozenset(_labels(found[2] or "").items()))
            assert key not in series, line
            series[key] = float(found[3])
    return series, types


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    while text:
        found = _LABEL.match(text)
        assert found, text
        assert found[1] not in labels
        labels[found[1]] = re.sub(r'\\(["\\n])', lambda each: "\n" if each[1] == "n" else each[1], found[2])
        text = text[found.end() :]
    return labels
