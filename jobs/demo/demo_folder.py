"""The folders of the demo: its logs, and its output."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.errors import SourceNotFoundError, UsageError
from tiersnap.snapshot.log.hands_off import refuse_log_dir

_log = logging.getLogger(__name__)

MARKER = ".tiersnap-demo"
_LEFT = frozenset({"report", "report-again", "topic-ids.txt", "warehouse"})


def find_logs() -> Path:
    """The bundled `ledger-2.7.2` log directory.

    Raises:
        SourceNotFoundError: it is not installed.
    """
    logs = Path(__file__).resolve().parent / "demo_data"
    if logs.is_dir():
        return logs
    raise SourceNotFoundError("the bundled logs are not installed", hint="run the demo from a checkout")


def make_room(folder: Path) -> None:
    """A folder with our marker in it and nothing else; what an earlier demo left in it is deleted.

    Raises:
        UsageError: there is something in it that no demo put there, or it is a broker's.
    """
    refuse_log_dir(folder, "--to")
    try:
        if folder.exists() and any(folder.iterdir()):
            others = sorted(path.name for path in folder.iterdir() if path.name not in {MARKER, *_LEFT})
            if others or not (folder / MARKER).is_file() or folder.is_symlink():
                named = ", ".join(others[:3]) or "all of it"
                raise UsageError(
                    f"--to {folder}: there is something in it that is no demo's: {named}",
                    hint="give a folder that is not there yet; only what a demo left is deleted",
                )
            shutil.rmtree(folder)
            _log.info("deleted %s, which an earlier demo left", folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
    except OSError as error:
        raise cannot_write(folder, error) from error
