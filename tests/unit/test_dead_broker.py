"""A cluster of which one broker is down: the client waits between its attempts, and takes no answer for an offset."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.reference.lone_broker import LOG_END, lone_broker
from tiersnap.remote_storage.cluster import client
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.errors import BrokerUnavailableError

pytestmark = pytest.mark.unit

_SECONDS = 2.0
_MOST_CONNECTS = 10  # the first wait is 0.1 s, and each next one is longer


def test_a_broker_that_is_down_is_tried_a_few_times_and_gives_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka tried 25,000 connections a second, and told -1001 for both ends of the log."""
    monkeypatch.setattr(client, "SECONDS", _SECONDS)
    connects: dict[int, int] = {}

    def count(statistics: str) -> None:
        for each in json.loads(statistics)["brokers"].values():
            connects[each["nodeid"]] = each["connects"]

    with lone_broker() as broker:
        watched: dict[str, Any] = {"statistics.interval.ms": "100", "stats_cb": count}
        cluster = Cluster(f"127.0.0.1:{broker.port}", watched)
        assert cluster.log_offsets([("orders", 0)]) == {("orders", 0): (LOG_END, LOG_END)}
        begun = time.monotonic()
        with pytest.raises(BrokerUnavailableError, match=r"the leader of orders-1 returns no offsets"):
            cluster.log_offsets([("orders", 1)])
        assert time.monotonic() - begun < 2 * _SECONDS, "one request, and not one for each end"
        cluster._client().poll(0.5)  # serves the statistics
    assert 1 <= connects[2] <= _MOST_CONNECTS, connects
