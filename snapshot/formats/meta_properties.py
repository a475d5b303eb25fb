"""`meta.properties` of a log directory: whose disk it is.

    version=1                                   KRaft; 0 under ZooKeeper
    cluster.id=<22 characters base64url>
    node.id=<number>                            broker.id under ZooKeeper
    directory.id=<22 characters base64url>      KRaft since 3.7; the controller knows the directory by it

A Java properties file, `#` begins a comment. Follows org.apache.kafka.metadata.properties.MetaProperties. A broker
does not start on a directory without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiersnap.snapshot.errors import CorruptCheckpointError

META_PROPERTIES = "meta.properties"
_NODE_ID = re.compile(r"[+-]?[0-9]{1,10}")
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of the file; `directory_id` and `node_id` are None if it has none."""

    cluster_id: str
    node_id: int | None = None
    directory_id: str | None = None
    is_kraft: bool = False


def parse(text: str, *, name: str) -> MetaProperties:
    """Return the needed properties. Raises CorruptCheckpointError: no cluster.id, or a node id that is no number."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith(("#", "!")):
            found[key.strip()] = value.strip()
    if not found.get("cluster.id"):
        raise CorruptCheckpointError(f"{name}: no cluster.id in it", hint="every broker since 0.10.1 writes one")
    node_id = found.get("node.id", found.get("broker.id"))
    if node_id is not None and not (_NODE_ID.fullmatch(node_id) and -(1 << 31) <= int(node_id) < 1 << 31):
        raise CorruptCheckpointError(f"{name}: {node_id[:_SHOWN]!r} is not a node id")
    return MetaProperties(
        cluster_id=found["cluster.id"],
        node_id=None if node_id is None else int(node_id),
        directory_id=found.get("directory.id") or None,
        is_kraft="node.id" in found,
    )
