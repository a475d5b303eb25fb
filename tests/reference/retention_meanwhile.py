"""Retention that deletes a segment between its listing and its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiersnap.snapshot.log import segment_scan
from tiersnap.snapshot.log.file_system import FileSystem


def delete_when_read(monkeypatch: pytest.MonkeyPatch, base_offset: int, *, trims_epochs: bool = True) -> None:
    """From now on the files of the segment at `base_offset` go right before its log is opened.

    A broker trims the leader epochs only when it moves the log start, not when it deletes a segment that it tiered.
    """
    opened = segment_scan.open_windows

    def delete_first(filesystem: FileSystem, path: str, **more: object) -> object:
        if path.endswith(f"{base_offset:020d}.log"):
            for each in Path(path).parent.glob(f"{base_offset:020d}.*"):
                each.unlink(missing_ok=True)
            if trims_epochs:
                _move_log_start(Path(path).parent)
        return opened(filesystem, path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(segment_scan, "open_windows", delete_first)


def _move_log_start(folder: Path) -> None:
    """Trim the leader epochs to the first segment that is left, as a broker does."""
    first = min(int(each.stem) for each in folder.glob("*.log"))
    checkpoint = folder / "leader-epoch-checkpoint"
    version, _, *entries = checkpoint.read_text().splitlines()
    epochs = [tuple(map(int, entry.split())) for entry in entries]
    (newest, _) = max(each for each in epochs if each[1] <= first)
    kept = [(newest, first), *(each for each in epochs if each[1] > first)]
    lines = [version, str(len(kept)), *(f"{epoch} {offset}" for epoch, offset in kept)]
    checkpoint.write_text("\n".join(lines) + "\n")
