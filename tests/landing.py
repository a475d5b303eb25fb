"""Run a side tier at a landing: one smoke test if its files are those of its last full pass, else all of its tests.

A test marked `nightly` is left out of the smoke run. A full pass without a skipped test writes the digest of the tier's
files to `.ci/passed.json`; commit it, and later landings run the smoke test until a file changes.

Usage: python -m tests.landing TIER
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PASSED = ".ci/passed.json"
FILES = {
    "airflow": ("jobs/airflow", "conf/airflow", "tests/airflow"),
    "artefact": ("pyproject.toml", "uv.lock", "tests/artefact"),
    "browser": ("snapshot/report", "tests/browser"),
    "install": ("pyproject.toml", "uv.lock", "src", "tests/install"),
    "prometheus": ("snapshot/metrics", "jobs/telemetry", "conf/prometheus", "conf/grafana", "tests/prometheus"),
}
SMOKE, ALL = "not nightly", ""
"""Values of pytest's -m."""


def digest(root: Path, paths: tuple[str, ...]) -> str:
    """Return the SHA-256 of the names and contents of the files that git tracks below `paths`, in hex."""
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=root, capture_output=True, check=True).stdout
    found = hashlib.sha256()
    for name in sorted(listed.decode().split("\0")[:-1]):
        path = root / name
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def passed(root: Path) -> dict[str, str]:
    """Return the digest of each tier at its last full pass; empty if none is recorded."""
    path = root / PASSED
    recorded: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return recorded


def selection(root: Path, tier: str) -> str:
    """Return SMOKE if the tier's files are those of its last full pass, else ALL."""
    return SMOKE if passed(root).get(tier) == digest(root, FILES[tier]) else ALL


def record(root: Path, tier: str) -> None:
    """Record that all tests of a tier passed with the files as they are."""
    recorded = passed(root) | {tier: digest(root, FILES[tier])}
    (root / PASSED).write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8")


class _Skipped:
    """A pytest plugin that counts skipped tests."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.count += report.skipped


def main(tier: str) -> int:
    """Run the tier's tests; return pytest's exit code."""
    chosen, skipped = selection(ROOT, tier), _Skipped()
    print(f"{tier}: {'one smoke test' if chosen == SMOKE else 'all tests: its files changed since they passed'}")
    code = pytest.main(["-q", f"tests/{tier}", "-m", chosen, "--durations=5"], plugins=[skipped])
    if code == 0 and chosen == ALL and not skipped.count:
        record(ROOT, tier)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
