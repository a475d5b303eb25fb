"""A clock of a process's own that can be set while it runs: libfaketime, where this machine has it."""

from __future__ import annotations

from pathlib import Path

_LIBRARIES = ("x86_64-linux-gnu", "aarch64-linux-gnu", ".")  # of Debian's package, below /usr/lib


def _library() -> Path | None:
    paths = (Path("/usr/lib", folder, "faketime/libfaketime.so.1") for folder in _LIBRARIES)
    return next((path for path in paths if path.exists()), None)


class Clock:
    """Told to a process by `environment`; where it `can_jump` no farther than the machine's, it never does.

    It is set by whole hours, so that minute and second in the process's log stay the machine's. Only the time of day
    is set: what a process waits for by the monotonic clock comes when it would have come.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        library = _library()
        self.can_jump = library is not None
        self.environment: dict[str, str] = {}
        if library is not None:
            self.environment = {
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(path),
                "FAKETIME_CACHE_DURATION": "1",  # seconds until a process sees that it was set
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                # Without it waits by the monotonic clock end at once, again and again.
                "FAKETIME_FORCE_MONOTONIC_FIX": "0",
                "FAKETIME_DISABLE_SHM": "1",
            }
            self.set(0)

    def set(self, hours: int) -> None:
        """Let it differ from the machine's by so many hours."""
        assert self.can_jump or hours == 0
        if self.can_jump:
            staged = self._path.with_suffix(".new")
            staged.write_text(f"{hours:+d}h\n")
            staged.replace(self._path)
