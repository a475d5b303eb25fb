"""docs/spark.md's first run on this host, over the bundled logs, and its first question."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.typed_page import ROOT, commands_of, type_in

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PAGE = ROOT / "docs/spark.md"
_QUESTION = re.compile(r"```python\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```")


def test_the_first_question_is_answered_as_the_page_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    (first,) = (each for each in commands_of(PAGE) if "tests/data" in each.words)
    type_in(tmp_path, first)
    assert (tmp_path / "tiersnap-report/index.html").is_file()
    ((question, shown),) = _QUESTION.findall(PAGE.read_text(encoding="utf-8"))
    capsys.readouterr()
    exec(compile(question, "docs/spark.md, first question", "exec"), {})
    assert capsys.readouterr().out == shown
