"""The kinds of orphans, and the actions of `remove-orphans` on them."""

from __future__ import annotations

from enum import StrEnum


class OrphanKind(StrEnum):
    """A kind of orphan."""

    COPY = "COPY"  # all objects of a segment
    ATTEMPT = "ATTEMPT"  # some of them
    SNAPSHOT = "SNAPSHOT"
    MANIFEST = "MANIFEST"
    CLAIM = "CLAIM"
    KNOWN_MANIFESTS = "KNOWN_MANIFESTS"
    CLUSTER = "CLUSTER"
    UNBLOCK = "UNBLOCK"  # what unblock had to put back
    PROBE = "PROBE"
    UPLOAD = "UPLOAD"  # multipart, unfinished
    FILE = "FILE"  # in .tiersnap-unfinished
    PARTITION = "PARTITION"  # what is of a partition that is refused


class Fate(StrEnum):
    """The action on an orphan."""

    REMOVE = "REMOVE"
    WAIT = "WAIT"  # too young; it may go later
    LEAVE = "LEAVE"  # named, and left to people
    REFUSE = "REFUSE"
