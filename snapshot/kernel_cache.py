"""A place for numba's compiled kernels where the user of a broker has none.

numba refuses to import a cached kernel when it can write neither beside the source nor below the home directory, and a
broker's user often can do neither. The kernels then go to a folder of this user in the temporary directory. They are
loaded as code, so that folder counts only if nobody else can write to it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def ensure_place() -> None:
    """Set NUMBA_CACHE_DIR if numba would find no place; call it before numba is imported."""
    if os.environ.get(VARIABLE):
        return
    if not _is_writable(Path(__file__).parent / "__pycache__") and not _is_writable(_cache_of_user()):
        os.environ[VARIABLE] = str(_private_folder())


def _cache_of_user() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba"
    except RuntimeError:  # a user without a home, as containers have
        return None


def _is_writable(folder: Path | None) -> bool:
    """As numba finds out."""
    if folder is None:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _private_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"tiersnap-kernels-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return Path(tempfile.mkdtemp(prefix="tiersnap-kernels-"))
    return folder
