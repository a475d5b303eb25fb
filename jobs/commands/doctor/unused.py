"""The answer of `doctor` which topics of the remote location the cluster does not have."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tiersnap.jobs.cli.output import and_more
from tiersnap.snapshot.errors import TiersnapError

if TYPE_CHECKING:
    from tiersnap.jobs.situation.remote_view import RemoteView
    from tiersnap.remote_storage.cluster.client import Cluster
    from tiersnap.remote_storage.cluster.unused_topic import UnusedTopic

_log = logging.getLogger(__name__)
_MOST_UNUSED = 5


def unused_topics(cluster: Cluster | None, view: RemoteView) -> list[UnusedTopic]:
    """Return the topics of the location that the cluster certainly lacks; none if either is unknown or silent."""
    if cluster is None or view.remote is None:
        return []
    from tiersnap.remote_storage.cluster.unused_topics import find_unused

    try:
        return find_unused(view.open_store(), cluster)
    except TiersnapError as error:
        _log.info("topics that the cluster does not have are not looked for: %s", error.message)
        return []


def lines_of_unused(topics: Sequence[UnusedTopic]) -> Iterator[str]:
    """Yield a line for each of the first topics, and the number of the others."""
    yield from (each.says() for each in topics[:_MOST_UNUSED])
    if len(topics) > _MOST_UNUSED:
        yield and_more(len(topics) - _MOST_UNUSED, "topic")
