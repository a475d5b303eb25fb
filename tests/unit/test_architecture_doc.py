"""docs/architecture.md: each path that it names exists, and its rooms are those of the import contracts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PARTS = ("jobs", "remote_storage", "snapshot")


def contracts(part: str) -> list[list[str]]:
    """Layers of the folders of a part, the highest first, each in alphabetical order."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = (
        each for each in settings["tool"]["importlinter"]["contracts"] if each.get("containers") == [f"tiersnap.{part}"]
    )
    layers = [
        [name for name in re.findall(r"\w+", layer) if (ROOT / part / name).is_dir()] for layer in found["layers"]
    ]
    return [sorted(layer) for layer in layers if layer]


def test_every_path_that_the_page_names_exists() -> None:
    named = re.findall(r"(?:jobs|remote_storage|snapshot|tests|docs|conf)/[\w./-]*", PAGE)
    assert len(named) > 60
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("part", PARTS)
def test_the_picture_has_the_rooms_of_the_import_contracts_in_their_order(part: str) -> None:
    (picture,) = re.findall(rf'subgraph \w+\["{part}/"\]\n(.*?)\n  end', PAGE, re.DOTALL)
    assert [sorted(re.findall(r"(\w+)/", box)) for box in re.findall(r'\["([^"]+)"\]', picture)] == contracts(part)
