"""Programs for which file modes count, also where the tests run as root."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
_PR_CAPBSET_DROP = 24
_IGNORE_MODES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def _obey_modes() -> None:
    libc = ctypes.CDLL(None)
    for capability in _IGNORE_MODES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def run_obeying_modes(
    *words: str, cwd: Path = REPOSITORY, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`python WORDS`, to which a file that its owner may not read or write is one that it cannot read or write."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=None if env is None else dict(env),
        preexec_fn=_obey_modes,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
