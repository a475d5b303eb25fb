"""A tier with the bundled partition, and a new disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.restoring import new_disk, tiered_store
from tiersnap.remote_storage.stores.directory_store import DirectoryStore


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return tiered_store(tmp_path / "remote")


@pytest.fixture
def disk(tmp_path) -> Path:
    return new_disk(tmp_path / "disk")
