"""Retention that deletes a segment between its listing and its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiersnap.snapshot.log import segment_scan
from tiersnap.snapshot.log.file_system import FileSystem


def delete_when_read(monkeypatch: pytest.MonkeyPatch, base_offset: int) -> None:
    """From now on the files of the segment at `base_offset` go right before its log is opened."""
    opened = segment_scan.open_windows

    def delete_first(filesystem: FileSystem, path: str, **more: object) -> object:
        if path.endswith(f"{base_offset:020d}.log"):
            for each in Path(path).parent.glob(f"{base_offset:020d}.*"):
                each.unlink(missing_ok=True)
        return opened(filesystem, path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(segment_scan, "open_windows", delete_first)
