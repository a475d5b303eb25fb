"""Temporary folders in memory: the fsyncs of a thousand small logs need no disk to wait for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30  # bytes

if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))  # pytest reads it when a test first asks for a folder
