"""One environment a revision, kept in `.cache/old-new/<commit>`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "old-new"
EXTRAS = "spark,s3,kafka,demo"


def environment(revision: str) -> Path:
    """Return the folder of an environment with the wheel of a git revision; `.` is this tree as it lies here.

    What is installed beside it are the versions of that revision's lock file.
    """
    if revision == ".":
        return ROOT / ".venv"
    commit = _git("rev-parse", "--short=12", revision)
    folder = CACHE / commit
    if not (folder / "bin" / "tiersnap").exists():
        with tempfile.TemporaryDirectory() as tree:
            packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", tree], input=packed, check=True)
            _install(Path(tree), folder)
    return folder


def _install(tree: Path, folder: Path) -> None:
    uv = str(ROOT / ".venv-tools" / "bin" / "uv")
    extras = [word for name in EXTRAS.split(",") for word in ("--extra", name)]
    command = [uv, "sync", "-q", "--frozen", "--no-editable", "--no-dev", "--compile-bytecode", *extras]
    environment_of_it = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder)}
    # uv brings certificates of its own; behind a proxy that signs for itself, those of the machine are needed.
    for certificates in ([], ["--system-certs"]):
        done = subprocess.run([*command, "--python", sys.executable, *certificates], cwd=tree, env=environment_of_it)
        if done.returncode == 0:
            return
    raise RuntimeError(f"{folder.name} could not be installed")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
