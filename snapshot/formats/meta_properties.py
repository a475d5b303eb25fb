"""Parse `meta.properties`, which names the cluster and the broker that own a log directory.

    version=1                                   KRaft; 0 under ZooKeeper
    cluster.id=<22 characters base64url>
    node.id=<number>                            broker.id under ZooKeeper
    directory.id=<22 characters base64url>      KRaft since 3.7; the controller's id for the directory

A line that begins with `#` or `!` is a comment. Follows org.apache.kafka.metadata.properties.MetaProperties. A broker
does not start if a log directory lacks the file.
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
    """The properties of a log directory. `directory_id` and `node_id` are None if the file lacks them."""

    cluster_id: str
    node_id: int | None = None
    directory_id: str | None = None
    is_kraft: bool = False


def parse(text: str, *, name: str) -> MetaProperties:
    """Return the properties in the text of a `meta.properties` file.

    Raises:
        CorruptCheckpointError: cluster.id is missing, or the node id is not an int32.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith(("#", "!")):
            found[key.strip()] = value.strip()
    if not found.get("cluster.id"):
        raise CorruptCheckpointError(
            f"{name}: cluster.id is missing", hint="every broker since 0.10.1 writes cluster.id into this file"
        )
    number, node_id = found.get("node.id", found.get("broker.id")), None
    if number is not None:
        if not (_NODE_ID.fullmatch(number) and -(1 << 31) <= int(number) < 1 << 31):
            raise CorruptCheckpointError(f"{name}: {number[:_SHOWN]!r} is not a node id")
        node_id = int(number)
    return MetaProperties(
        cluster_id=found["cluster.id"],
        node_id=node_id,
        directory_id=found.get("directory.id") or None,
        is_kraft="node.id" in found,
    )
