"""The check of `doctor` for topics in the remote location that the cluster does not have."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tiersnap.jobs.commands.doctor.cluster import first_lines
from tiersnap.snapshot.errors import TiersnapError

if TYPE_CHECKING:
    from tiersnap.jobs.situation.remote_view import RemoteView
    from tiersnap.remote_storage.cluster.client import Cluster
    from tiersnap.remote_storage.cluster.unused_topic import UnusedTopic

_log = logging.getLogger(__name__)


def unused_topics(cluster: Cluster | None, view: RemoteView) -> list[UnusedTopic]:
    """Return the topics of the location that the cluster certainly lacks.

    Return an empty list without a cluster or a location, or if the cluster or the store does not answer.
    """
    if cluster is None or view.remote is None:
        return []
    from tiersnap.remote_storage.cluster.unused_topics import find_unused

    try:
        return find_unused(view.open_store(), cluster)
    except TiersnapError as error:
        _log.info("unused topics were not searched: %s", error.message)
        return []


def lines_of_unused(topics: Sequence[UnusedTopic]) -> Iterator[str]:
    """Yield a line for each of the first MOST_LINES unused topics. The last line counts the others."""
    return first_lines(topics, lambda topic: topic.says(), "topic")
