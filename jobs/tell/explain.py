"""What `explain` shows: a row for everyone who answers or does something."""

from __future__ import annotations

from dataclasses import asdict

from tiersnap.jobs.output import Output
from tiersnap.snapshot.exactly_once.explain.explain import Explanation, names

_COLUMNS = (
    *("who", "releases", "changed_by", "transaction_version", "request", "situation", "when"),
    *("answer", "severity", "does"),
)


def show(output: Output, explained: Explanation, broker: str | None) -> None:
    """The result; `broker` is the release that was asked about, None for all."""
    error = explained.error
    if error is not None and error.code is not None:
        output.talk(f"{error.error}: error {error.code}, {error.exception}")
    output.row_dicts("explain", [asdict(row) for row in explained.rows], columns=_COLUMNS)
    if not explained.is_answered:
        whose = "no release" if broker is None else f"Kafka {broker}"
        output.talk(f"not modelled as an answer of {whose}")


def show_names(output: Output) -> None:
    """All that can be explained."""
    rows = [{"name": name, "request": request, "when": when} for name, request, when in names()]
    output.row_dicts("explain", rows, columns=("name", "request", "when"))
