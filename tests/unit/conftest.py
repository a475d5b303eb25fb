"""Temporary folders in memory, as the fsyncs of a thousand small logs need no disk; and no broker of another test."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30  # bytes

if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))  # pytest reads it when a test first asks for a folder


@pytest.fixture(autouse=True)
def no_broker_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without LOGDIR asks the broker of this host, and other tests start some."""
    monkeypatch.setattr("tiersnap.jobs.situation.options.PROC", Path("/nowhere"))
