"""Hints and errors that name the permission which a user of the cluster lacks."""

from __future__ import annotations

from tiersnap.remote_storage.errors import ClusterRefusedError


def needs_permission(permission: str) -> str:
    """Return a hint that names the missing permission. `permission` is a text such as "READ of orders"."""
    return (
        f"with kafka-acls --add, give {permission} to the user of --command-config. If --command-config names no user, "
        "brokers know this client as ANONYMOUS"
    )


def not_described(name: str, topic: str) -> ClusterRefusedError:
    """Return the error for a topic that this user may not describe.

    `name` is the cluster or the partition with which the message begins.
    """
    return ClusterRefusedError(
        f"{name}: this user has no permission to describe {topic}",
        hint=needs_permission(f"DESCRIBE of {topic}"),
        code="TOPIC_AUTHORIZATION_FAILED",
    )
