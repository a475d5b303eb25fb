"""The actions of `expire` on segments and of `remove-orphans` on objects."""

from __future__ import annotations

from enum import StrEnum


class ExpireAction(StrEnum):
    """The action on a segment, or on a whole partition."""

    DELETE = "DELETE"
    LOCKED = "LOCKED"  # the store does not let it be deleted now
    WAIT = "WAIT"  # an older segment is LOCKED: only a prefix of the log goes
    LEAVE_TO_BROKERS = "LEAVE_TO_BROKERS"
    IN_USE = "IN_USE"  # somebody is copying segments of the partition
    REFUSE = "REFUSE"


class OrphanKind(StrEnum):
    """A kind of orphan."""

    COPY = "COPY"  # all objects of a segment
    ATTEMPT = "ATTEMPT"  # some of them
    SNAPSHOT = "SNAPSHOT"
    MANIFEST = "MANIFEST"
    CLAIM = "CLAIM"
    EXPIRE = "EXPIRE"  # what expire was deleting
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
