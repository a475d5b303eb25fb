"""Hints and errors that name the permission which a user of the cluster lacks."""

from __future__ import annotations

from tiersnap.remote_storage.errors import ClusterRefusedError


def needs_permission(permission: str) -> str:
    """Return the hint about a missing permission, such as "READ of orders"."""
    return f"give {permission} with kafka-acls --add to the user that --command-config names, or to ANONYMOUS"


def not_described(name: str, topic: str) -> ClusterRefusedError:
    """Return the error that this user may not describe a topic.

    `name` is the cluster or partition that needs the topic.
    """
    return ClusterRefusedError(
        f"{name}: this user has no permission to describe {topic}",
        hint=needs_permission(f"DESCRIBE of {topic}"),
        code="TOPIC_AUTHORIZATION_FAILED",
    )
