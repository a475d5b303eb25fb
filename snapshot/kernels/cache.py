"""Find the folder for compiled kernels.

The folder's name contains a digest of all kernel modules, so that a kernel compiled from older sources never runs.

Often a broker's user may write neither to the source folder nor to a home directory. If so, the kernels are stored in a
folder of this user below the temporary directory. tiersnap runs the stored code, so it uses the folder only if no other
user can write to it.
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

VARIABLE = "NUMBA_CACHE_DIR"  # numba's variable for its own cache
_PACKAGE = Path(__file__).resolve().parent
# Modules of `formats` whose constants and layouts are compiled into kernels.
_FORMATS = ("indexes.py", "record_batch.py", "records.py", "snapshot_file.py")


@cache
def folder() -> Path:
    """Return the folder. It may not exist yet.

    It is inside $NUMBA_CACHE_DIR if the variable is set and this user can write there.
    """
    name, given = f"tiersnap-{_digest()}", os.environ.get(VARIABLE)
    for place in (Path(given) if given else None, _PACKAGE / "__pycache__", _cache_of_user()):
        # Test the folder itself and not its parent: after `sudo tiersnap` the folder may belong to root.
        if place is not None and _is_writable(place / name):
            break
    else:
        place = _private_folder()
    _log.debug("compiled kernels are kept in %s", place / name)
    return place / name


def holds_replay() -> bool:
    """Return whether the folder has code of the kernel `batch.walk`, which each replay needs.

    The code may be for another processor.
    """
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
