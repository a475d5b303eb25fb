"""Places that are named twice: `/x`, `/x/`, `/y/../x` and `file:///x` are one log directory."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from tiersnap.snapshot.log.log_dir import located

_LOCAL_HOSTS = ("", "localhost")


def each_once(uris: Iterable[str]) -> tuple[str, ...]:
    """The places in their order, each as it was named first. Links are not followed: a mount may be one."""
    found: dict[str, str] = {}
    for uri in uris:
        found.setdefault(place_of(uri), uri)
    return tuple(found.values())


def place_of(uri: str) -> str:
    """One name of a place, whatever a path or URI of it looks like; for comparison alone."""
    name = located(uri)
    if not name.startswith("file:"):
        return name
    parts = urlsplit(name)
    if parts.netloc not in _LOCAL_HOSTS:
        return name
    return posixpath.normpath("/" + unquote(parts.path).lstrip("/"))
