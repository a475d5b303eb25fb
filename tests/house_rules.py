"""What `make lint` checks that no linter knows: the length of files, and words that must not be in the project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 400
PACKAGES = ("snapshot", "remote_storage", "jobs")


def problems() -> list[str]:
    """One line a problem."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = []
    for name in listed.split():
        path = ROOT / name
        if not path.exists():
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if name.split("/")[0] in PACKAGES and len(lines) > LONGEST:
            found.append(f"{name}: {len(lines)} lines, at most {LONGEST}: split it by concept")
        for number, line in enumerate(lines, 1):
            if "._jvm" in line or "._jdf" in line:
                found.append(f"{name}:{number}: a JVM handle does not exist on Spark Connect")
    return [line for line in found if not line.startswith("tests/house_rules.py")]


if __name__ == "__main__":
    lines = problems()
    print("\n".join(lines), end="\n" if lines else "")
    sys.exit(bool(lines))
