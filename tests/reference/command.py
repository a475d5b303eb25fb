"""The `tiersnap` command as a user types it: exit code, stdout and stderr, in this process."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reference.schemas import assert_follows_schema
from tiersnap.jobs.main import run


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it printed."""

    exit_code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Result rows of a command that was given `--output json`, which `tiersnap` here always does."""
        return json.loads(self.out)["result"]["rows"]

    def row(self, **wanted: object) -> dict[str, Any]:
        """The one row with these values."""
        (row,) = (row for row in self.rows if wanted.items() <= row.items())
        return row


def counted(counts: dict[str, int]) -> str:
    """Counts by name as the table form shows them."""
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def tiersnap(*words: str | Path, output: str = "json") -> Ran:
    """Run `tiersnap --output json WORDS`; what it prints in a JSON form must follow its published schema."""
    # Some commands write bytes, so stdout has a buffer as a real one has.
    written, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(written, encoding="utf-8", errors="surrogatepass", newline="", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["--output", output, *map(str, words)])
    text = written.getvalue().decode("utf-8", "surrogatepass")
    assert_follows_schema(text, output)
    return Ran(code, text, err.getvalue())


def assert_said(ran: Ran, exit_code: int, *words: str) -> None:
    """The exit code, words on stderr, and no traceback."""
    assert ran.exit_code == exit_code, ran.err
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err, ran.err
