"""What a hint says to type where an extra is missing: what works for the way this copy was installed."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from tiersnap.snapshot.installed import with_extra

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
METADATA = """Metadata-Version: 2.4
Name: tiersnap
Version: 0.1.0
Requires-Dist: click<9,>=8.1
Provides-Extra: s3
Requires-Dist: boto3<2,>=1.37; extra == 's3'
Provides-Extra: spark
Requires-Dist: delta-spark==4.4.0; extra == 'spark'
Requires-Dist: pyspark==4.2.*; extra == 'spark'
"""


def installed(folder: Path, source: dict[str, object] | None) -> Distribution:
    info = folder / "tiersnap-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    if source is not None:
        (info / "direct_url.json").write_text(json.dumps(source))
    return Distribution.at(info)


def packages(line: str) -> list[str]:
    """The words behind `install` and the interpreter."""
    words = shlex.split(line)
    assert sys.executable in words
    return [word for word in words[words.index("install") + 1 :] if word not in ("--python", sys.executable)]


def test_this_copy_is_installed_again_from_its_checkout() -> None:
    assert packages(with_extra("s3")) == ["-e", f"{ROOT}[s3]"]
    assert with_extra("s3").startswith("uv pip install" if find_spec("pip") is None else sys.executable)


def test_a_wheel_is_named_as_long_as_it_is_there(tmp_path: Path) -> None:
    wheel = tmp_path / "the wheel" / "tiersnap-0.1.0-py3-none-any.whl"
    copy = installed(tmp_path, {"url": wheel.as_uri(), "archive_info": {}})
    assert packages(with_extra("spark", copy)) == ["delta-spark==4.4.0", "pyspark==4.2.*"]
    assert packages(with_extra("spark,s3", copy)) == ["boto3<2,>=1.37", "delta-spark==4.4.0", "pyspark==4.2.*"]
    wheel.parent.mkdir()
    wheel.touch()
    assert packages(with_extra("spark", copy)) == [f"{wheel}[spark]"]


def test_a_checkout_that_was_built_and_a_copy_of_an_own_index_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    built = installed(tmp_path / "built", {"url": tmp_path.as_uri(), "dir_info": {}})
    assert packages(with_extra("s3", built)) == [f"{tmp_path}[s3]"]
    assert packages(with_extra("s3", installed(tmp_path, None))) == ["boto3<2,>=1.37"]


def test_one_file_says_what_else_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEX", "/tmp/tiersnap")
    assert "pip install '/" not in with_extra("s3")
    assert "install the wheel into a virtual environment" in with_extra("s3")


def test_nothing_says_to_install_it_by_a_name_that_anybody_may_register() -> None:
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("conf/**/*")]
    for part in ("jobs", "snapshot", "remote_storage"):
        texts += ROOT.glob(f"{part}/**/*.py")
    named = re.compile(r"pip install[^`\n]*?[ '\"]tiersnap(?![-\w./])|pypi: \{package: \"?tiersnap")
    found = [str(path) for path in texts if path.is_file() and named.search(path.read_text("utf-8", "replace"))]
    assert [name for name in found if not name.endswith("CHANGELOG.md")] == []
