"""The wheel without extras, as on a broker host: no command is a traceback, and each says which extra it lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tiersnap.jobs.commands import COMMANDS

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests/data/ledger-2.7.2/logs"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tiersnap` of a virtual environment with the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("install")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str | Path) -> None:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr

    run(sys.executable, "-m", "venv", folder / "venv")
    pip = (folder / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "-q")
    run(*pip, "wheel", "--no-deps", "-w", folder / "wheel", ROOT)
    (wheel,) = (folder / "wheel").glob("*.whl")
    run(*pip, "install", wheel)
    return folder / "venv/bin/tiersnap"


@pytest.mark.nightly
def test_the_sdist_gives_the_same_wheel(tmp_path: Path) -> None:
    """Whoever builds from the sdist gets every module, schema-less file and bundled log that the tree gives."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str | Path) -> None:
        done = subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    run(python, "-m", "pip", "--disable-pip-version-check", "-q", "install", backend)
    run(python, "-m", "hatchling", "build", "-d", tmp_path / "of_tree")
    (sdist,) = (tmp_path / "of_tree").glob("*.tar.gz")
    shutil.unpack_archive(sdist, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    done = subprocess.run(
        [python, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "of_sdist"], cwd=unpacked, env=environment,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run(python, "-m", "hatchling", "build", "-d", tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "of_tree"), "built twice, the same bytes"
    run(python, "-m", "pip", "--disable-pip-version-check", "-q", "install", "twine")
    run(python, "-m", "twine", "check", "--strict", *(tmp_path / "of_tree").iterdir())
    of_tree, of_sdist = (wheel_contents(tmp_path / name) for name in ("of_tree", "of_sdist"))
    assert of_sdist == of_tree
    assert "tiersnap/jobs/main.py" in of_tree
    for page in ("runbook.md", "kips.md"):
        assert of_tree[f"tiersnap/{page}"] == (ROOT / "docs" / page).read_bytes()
    assert any(name.startswith("tiersnap/jobs/demo/demo_data/") for name in of_tree)
    assert not any(name.startswith(("tests/", "docs/")) for name in of_tree)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def wheel_contents(folder: Path) -> dict[str, bytes]:
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith(("RECORD", "WHEEL"))}


@pytest.fixture
def beside_a_foreign_jobs(tmp_path: Path) -> Path:
    """A working directory with packages of somebody else that are named like parts of ours."""
    for name in ("jobs", "snapshot", "remote_storage", "conf"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('somebody else')")
    return tmp_path


def say(command: Path, folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [command, *map(str, words)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.nightly
def test_version_works_beside_a_foreign_jobs_folder(command: Path, beside_a_foreign_jobs: Path) -> None:
    done = say(command, beside_a_foreign_jobs, "--version")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.nightly
def test_help_of_every_command_works_and_says_what_it_lacks(command: Path, beside_a_foreign_jobs: Path) -> None:
    for name in COMMANDS:
        done = say(command, beside_a_foreign_jobs, name, "--help")
        assert done.returncode == 0, (name, done.stderr)
        assert "Usage: tiersnap" in done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("run", "--source", "x", "--remote", "y"), "spark"),
        (("tier", LOGS, "--remote", "s3://bucket/x"), "s3"),
        (("report",), "spark"),
        (("unblock", LOGS, "--remote", "/tmp/x", "--bootstrap-server", "localhost:1"), "kafka"),
        (("publish", "--remote", "/tmp/x", "--bootstrap-server", "localhost:1"), "kafka"),
        (("mend", "--remote", "/tmp/x", "--from", "/tmp/y", "--bootstrap-server", "localhost:1"), "kafka"),
        (("install", "--remote", "s3://bucket/x", "--to", LOGS), "s3"),
        (("restore", "--remote", "s3://bucket/x", "--to", LOGS, "--topic", "t"), "s3"),
    ],
)
def test_a_command_that_lacks_an_extra_names_it(
    command: Path, beside_a_foreign_jobs: Path, words: tuple[str | Path, ...], extra: str
) -> None:
    done = say(command, beside_a_foreign_jobs, *words)
    assert done.returncode == 2, done.stderr
    assert f"-none-any.whl[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_config_shows_the_settings_of_what_is_there(command: Path, beside_a_foreign_jobs: Path) -> None:
    done = say(command, beside_a_foreign_jobs, "config")
    assert done.returncode == 0, done.stderr
    assert "producer-expiration" in done.stdout
    (beside_a_foreign_jobs / "settings.yaml").write_text("run:\n  scan: window\nscan:\n  topic: orders\n")
    assert say(command, beside_a_foreign_jobs, "--config", "settings.yaml", "config", "scan").returncode == 0


def test_a_broker_host_can_scan_dump_verify_and_repair(command: Path, beside_a_foreign_jobs: Path) -> None:
    assert "A STUCK PARTITION" in say(command, beside_a_foreign_jobs, "runbook", "MISSING_SNAPSHOT").stdout
    assert say(command, beside_a_foreign_jobs, "scan", LOGS, "--topic", "ledger").returncode == 4
    out = beside_a_foreign_jobs / "out"
    done = say(command, beside_a_foreign_jobs, "repair", LOGS, "--topic", "ledger", "--out", out)
    assert done.returncode == 0, done.stderr
    (first, *_) = sorted(out.rglob("*.snapshot"))
    assert say(command, beside_a_foreign_jobs, "dump", first).returncode == 0


@pytest.mark.nightly
def test_the_line_that_is_said_adds_what_is_missing(command: Path, beside_a_foreign_jobs: Path) -> None:
    """The last one here: it changes the environment of the others."""
    words = ("verify", "--remote", "s3://b/x")
    hint = say(command, beside_a_foreign_jobs, *words).stderr.strip().splitlines()[-1].strip()
    done = subprocess.run(hint, shell=True, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "whl[" not in say(command, beside_a_foreign_jobs, *words, "--endpoint-url", "http://127.0.0.1:1").stderr
