"""What runs inside Spark is what was pinned."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tiersnap.jobs.pipeline import delta_jars

pytestmark = pytest.mark.unit


def test_the_jars_of_the_installed_delta_are_pinned() -> None:
    name, revision = delta_jars.artifact()
    assert f"{name}-{revision}.jar" in delta_jars.pinned()
    assert all(len(bytes.fromhex(digest)) == 32 for digest in delta_jars.pinned().values())


def test_a_jar_that_is_another_one_or_not_pinned_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSNAP_JARS", str(tmp_path))
    name, revision = delta_jars.artifact()
    jar = delta_jars.folder() / f"{name}-{revision}.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"somebody else's")
    digest = hashlib.sha256(b"somebody else's").hexdigest()
    with pytest.raises(RuntimeError, match=f"{digest}, but another hash is pinned for this jar"):
        delta_jars.install()
    jar.rename(jar.with_name("more.jar"))
    with pytest.raises(RuntimeError, match="no jar of this name is pinned"):
        delta_jars.install()
