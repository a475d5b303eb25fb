"""What a cluster's errors become: those that pass by themselves ask for another run, the others are a no."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.lineage import LeaderLineage
from tiersnap.remote_storage.cluster.passing_errors import PASSING
from tiersnap.remote_storage.errors import BrokerUnavailableError
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("name", sorted(PASSING))
def test_an_error_that_passes_by_itself_is_transient(name):
    error = KafkaError(getattr(KafkaError, name))
    assert not error.retriable(), "the client says so of none of them"
    assert Cluster(NOBODY).to_error("offsets", error).exit_code is ExitCode.TRANSIENT


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "INVALID_CONFIG", "UNSUPPORTED_VERSION"])
def test_a_refusal_is_none_that_another_run_would_change(name):
    assert Cluster(NOBODY).to_error("offsets", KafkaError(getattr(KafkaError, name))).exit_code is ExitCode.USAGE


class WithoutBrokers(Cluster):
    """A cluster between two elections: metadata names a leader that has gone."""

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {}


def test_a_leader_that_has_gone_is_waited_for():
    with LeaderLineage(WithoutBrokers(NOBODY)) as lineage, pytest.raises(BrokerUnavailableError, match="broker 2"):
        lineage.of(TopicIdPartition("t", "A" * 22, 0), 2)(0)
