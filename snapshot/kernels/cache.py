"""The folder for compiled kernels: one for exactly these kernels, also if the broker's user has no home.

A fold that was compiled of last week's rules must not run today, so the folder is named after the content of all kernel
modules.

Where neither beside the source nor below the home directory can be written, and a broker's user often can do neither,
the kernels go to a folder of this user in the temporary directory. They are loaded as code, so that folder counts only
if nobody else can write to it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from functools import cache
from pathlib import Path

_log = logging.getLogger(__name__)

VARIABLE = "NUMBA_CACHE_DIR"  # a folder to keep them in, as numba keeps what it compiles
_PACKAGE = Path(__file__).resolve().parent
# Modules of `formats` whose constants and layouts are compiled into kernels.
_FORMATS = ("indexes.py", "record_batch.py", "records.py", "snapshot_file.py")


@cache
def folder() -> Path:
    """Return the folder, which may not be there yet; below VARIABLE, where that can be written."""
    name, given = f"tiersnap-{_digest()}", os.environ.get(VARIABLE)
    for place in (Path(given) if given else None, _PACKAGE / "__pycache__", _cache_of_user()):
        # Not the place alone: the folder may be root's, of a `sudo tiersnap`.
        if place is not None and _is_writable(place / name):
            break
    else:
        place = _private_folder()
    _log.debug("compiled kernels are kept in %s", place / name)
    return place / name


def holds_replay() -> bool:
    """Return whether the folder has compiled kernels of a replay, of any processor."""
    return any(folder().glob("batch.walk-*.o"))


def _digest() -> str:
    content = hashlib.sha256()
    for path in (*sorted(_PACKAGE.glob("*.py")), *(_PACKAGE.parent / "formats" / name for name in _FORMATS)):
        content.update(path.read_bytes())
    return content.hexdigest()[:12]


def _cache_of_user() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba"
    except RuntimeError:  # a user without a home, as containers have
        return None


def _is_writable(folder: Path) -> bool:
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
