"""docs/python.md: each script, run as it is printed there, prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tiersnap
from tests.reference.typed_page import ROOT

pytestmark = pytest.mark.unit

TEXT = (ROOT / "docs/python.md").read_text(encoding="utf-8")
_SCRIPT = re.compile(r"```python\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```")
SCRIPTS = [
    (section.partition("\n")[0], script, shown)
    for section in TEXT.split("\n## ")
    for script, shown in _SCRIPT.findall(section)
]


def run_script(script: str, folder: Path) -> str:
    (folder / "script.py").write_text(script, encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_page_has_three_scripts() -> None:
    assert [name for name, _, _ in SCRIPTS] == ["Read snapshots", "Examine a log directory", "Judge and tier"]
    assert TEXT.count("```python\n") == len(SCRIPTS)


@pytest.mark.parametrize(("script", "shown"), [each[1:] for each in SCRIPTS], ids=[each[0] for each in SCRIPTS])
def test_a_script_prints_what_the_page_shows(script: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    assert run_script(script, tmp_path) == shown


def test_the_page_names_what_the_package_exports_and_nothing_else() -> None:
    prose = re.sub(r"```python.*?```", "", TEXT, flags=re.DOTALL)
    named = set(re.findall(r"`(?:tiersnap\.)?([A-Za-z_]\w+)(?:\([\w, ]*\))?`", prose))
    exported = {*tiersnap.__all__} - {"__version__"}
    assert exported <= named
    assert {name for name in named if name[0].isupper() and not name.isupper()} <= exported
