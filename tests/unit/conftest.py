"""Temporary folders in memory, since the fsyncs of a thousand small logs need no disk, and a remote storage there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.local_tiered_storage_layout import LocalTieredStorageLayout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30  # bytes

if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))  # pytest reads it when a test first asks for a folder


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """Remote storage in an empty directory."""
    return DirectoryStore(tmp_path / "remote")


@pytest.fixture(params=[AivenLayout(), LocalTieredStorageLayout()], ids=["aiven", "local"])
def layout(request: pytest.FixtureRequest) -> Layout:
    """Each layout of remote storage in turn."""
    found: Layout = request.param
    return found
