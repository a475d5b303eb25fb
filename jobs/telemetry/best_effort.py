"""Something that may fail or hang without the job noticing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from tiersnap.jobs.shown import shown

TIMEOUT_SECONDS = 2.0
_log = logging.getLogger(__name__)


def attempt(what: str, action: Callable[[], object]) -> None:
    """Do it, for at most two seconds; a failure is a warning in the log.

    A thread, because looking up a host's name knows no time-out. It is left behind where it hangs.
    """
    failed: list[str] = []

    def run() -> None:
        try:
            action()
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True, name=f"tiersnap {what}")
    try:
        thread.start()
    except RuntimeError as error:  # a host at its limit of threads
        failed.append(str(error))
    else:
        thread.join(TIMEOUT_SECONDS)
        if thread.is_alive():
            failed.append(f"no answer within {TIMEOUT_SECONDS:.0f} s")
    if failed:
        _log.warning("%s: %s", what, shown(failed[0]))


def with_path(url: str, path: str) -> str:
    """A URL that names no path of its own, with this one."""
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/{path}"


def post(url: str, body: bytes, content_type: str) -> None:
    """HTTP POST.

    Raises:
        OSError, ValueError: no answer, an answer that is no success, or no URL.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"not an http URL: {url}")
    import urllib.request  # takes its time to load, and most commands post nothing

    request = urllib.request.Request(url, body, {"Content-Type": content_type}, method="POST")
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
        pass
