"""What a segment passes on its way through `tier`: `python -m tests.trace_tier [LOGDIR]`.

Prints how many files of the project the command enters with --apply and --report, and how many objects of each of its
types it makes for one segment that it tiers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.reference.command import tiersnap

ROOT = Path(__file__).parent.parent
BUNDLED = ROOT / "tests/data/kafka-3.9.1/logs"


@dataclass
class Trace:
    """Files that were entered, by calls; objects that were made, by class name."""

    files: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count one call; of sys.setprofile."""
        if event != "call":
            return
        file = frame.f_code.co_filename
        if file.startswith(f"{ROOT}/src/tiersnap/"):
            self.files[file] += 1
        made = type(frame.f_locals.get("self"))
        if frame.f_code.co_name == "__init__" and made.__module__.startswith("tiersnap."):
            self.made[made.__name__] += 1


def traced_tier(log_dir: Path, to: Path) -> tuple[Trace, int]:
    """Tier a log directory to a new folder, with a report; gives also how many segments were tiered."""
    trace = Trace()
    for name in ("before", "remote"):
        (to / name).mkdir()
    command = "tier", log_dir, "--layout", "local-tiered-storage", "--apply"
    # Once without the trace, so that all modules are imported.
    tiersnap(*command, "--remote", to / "before", "--report", to / "page")
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        ran = tiersnap(*command, "--remote", to / "remote", "--report", to / "report")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace, json.loads(ran.out)["result"]["segments_uploaded"]


def main() -> None:
    """Print the counts."""
    with tempfile.TemporaryDirectory() as folder:
        trace, tiered = traced_tier(Path(sys.argv[1]) if len(sys.argv) > 1 else BUNDLED, Path(folder))
    print(f"{len(trace.files)} files entered, {tiered} segments tiered")
    for name, count in trace.made.most_common():
        print(f"{count / tiered:6.2f} a segment  {name}")


if __name__ == "__main__":
    main()
