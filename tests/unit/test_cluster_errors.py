"""What a cluster's errors become: those that pass by themselves ask for another run, the others are a no."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.reference.small_log import write_small_log
from tiersnap.remote_storage.cluster import client
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.leader_epochs import RawConnection, open_lineage
from tiersnap.remote_storage.cluster.passing_errors import PASSING
from tiersnap.remote_storage.errors import BrokerUnavailableError, LeaderEpochLineageError, UnknownTopicError
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.snapshot.errors import ExitCode, TiersnapError, UsageError

pytestmark = pytest.mark.unit

NOBODY = "127.0.0.1:1"
ELECTION = {
    *("_NOENT", "_UNKNOWN_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE"),
    *("NOT_CONTROLLER", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS"),
}


@pytest.mark.parametrize("name", sorted(PASSING | ELECTION))
def test_an_error_that_passes_by_itself_is_transient(name):
    error = KafkaError(getattr(KafkaError, name))
    assert not error.retriable(), "the client says so of none of them"
    assert Cluster(NOBODY).to_error("offsets", error).exit_code is ExitCode.TRANSIENT


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "INVALID_CONFIG", "UNSUPPORTED_VERSION"])
def test_a_refusal_is_none_that_another_run_would_change(name):
    assert Cluster(NOBODY).to_error("offsets", KafkaError(getattr(KafkaError, name))).exit_code is ExitCode.USAGE


def test_a_missing_permission_is_named_by_the_hint():
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert "give READ of orders" in Cluster(NOBODY).to_error("reading orders", error, "READ of orders").hint
    other = KafkaError(KafkaError.INVALID_CONFIG)
    assert "READ" not in Cluster(NOBODY).to_error("reading orders", other, "READ of orders").hint


def test_an_address_is_doubted_only_as_long_as_nobody_has_answered():
    """A broker that is killed in the middle of a run does not make the addresses of the others wrong."""
    error = KafkaError(KafkaError._TRANSPORT)
    assert "check the broker's address" in Cluster(NOBODY).to_error("offsets", error).hint
    answered = Cluster(NOBODY, {"test.mock.num.brokers": "2"})
    assert answered.brokers().keys() == {1, 2}
    told = answered.to_error("offsets", error)
    assert told.exit_code is ExitCode.TRANSIENT
    assert told.hint == "a broker stopped, or a partition has no leader yet: run the same command again"


def test_cluster_gives_up_after_its_first_timeout_when_nothing_answered(monkeypatch):
    monkeypatch.setattr(client, "_FIRST_SECONDS", 0.5)
    monkeypatch.setattr(client, "SECONDS", 600.0)
    with pytest.raises(BrokerUnavailableError, match="Connection refused"):
        Cluster(NOBODY).topics(["orders"])


def test_an_error_of_a_client_property_hides_its_value():
    with pytest.raises(UsageError, match=r"\*\*\*") as caught:
        Cluster(NOBODY, {"security.protocol": "hunter2"}).cluster_id()
    assert "hunter2" not in caught.value.message


def test_a_property_named_as_a_parameter_of_the_client_is_refused_as_any_other():
    with pytest.raises(UsageError, match='No such configuration property: "conf"'):
        Cluster(NOBODY, {"conf": "x"}).cluster_id()


class WithoutBrokers(Cluster):
    """A cluster between two elections: metadata names a leader that has gone."""

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {}


def test_a_leader_that_has_gone_is_waited_for():
    with open_lineage(WithoutBrokers(NOBODY), ()) as lineage, pytest.raises(BrokerUnavailableError, match="broker 2"):
        lineage(TopicIdPartition("t", "A" * 22, 0), 2)(0)


def test_log_directory_whose_leader_epochs_are_lost_tells_no_lineage(tmp_path: Path):
    folder = write_small_log(tmp_path)
    with open_lineage(Cluster(NOBODY), (str(tmp_path),)) as lineage:
        assert lineage(TopicIdPartition("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 0), 1)(0) == (0, 2**63 - 1)
    (folder / "leader-epoch-checkpoint").write_bytes(b"")
    with (
        open_lineage(Cluster(NOBODY), (str(tmp_path),)) as lineage,
        pytest.raises(LeaderEpochLineageError, match="leader-epoch-checkpoint lacks leader epochs"),
    ):
        lineage(TopicIdPartition("orders", "lZ6vvmajTWKDBUTV6SQAtQ", 0), 1)
    with open_lineage(Cluster(NOBODY), (str(tmp_path),)) as lineage, pytest.raises(UnknownTopicError):
        lineage(TopicIdPartition("other", "A" * 22, 0), 1)


def answer_one_request_a_connection(
    server: socket.socket, error: int = 0, change: Callable[[bytes], bytes] = bytes
) -> None:
    """OffsetForLeaderEpoch of t-0: epoch 4 ends at 70; `change` makes another answer of it."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            _, _, correlation = struct.unpack_from(">hhi", connection.recv(length, socket.MSG_WAITALL))
            body = change(struct.pack(">iiih1sihiiq", correlation, 0, 1, 1, b"t", 1, error, 0, 4, 70))
            connection.sendall(struct.pack(">i", len(body)) + body)


def test_a_connection_that_the_broker_closed_meanwhile_is_made_anew():
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_one_request_a_connection, args=(server,), daemon=True).start()
        with RawConnection(*server.getsockname(), {}) as connection:
            assert [connection.end_offset_for("t", 0, 4) for _ in range(3)] == [(4, 70)] * 3
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            with pytest.raises(BrokerUnavailableError):
                connection.end_offset_for("t", 0, 4)


@pytest.mark.parametrize(("error", "code"), [(5, 3), (6, 3), (56, 3), (29, 2)])
def test_a_broker_that_leads_no_more_is_asked_again_and_one_that_refuses_is_not(error, code):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_one_request_a_connection, args=(server, error), daemon=True).start()
        with RawConnection(*server.getsockname(), {}) as connection, pytest.raises(TiersnapError) as caught:
            connection.end_offset_for("t", 0, 4)
        server.shutdown(socket.SHUT_RDWR)
    assert caught.value.exit_code == code


def answered(change: Callable[[bytes], bytes]) -> TiersnapError:
    """The error of an answer that was changed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_one_request_a_connection, args=(server, 0, change), daemon=True).start()
        with RawConnection(*server.getsockname(), {}) as connection, pytest.raises(TiersnapError) as caught:
            connection.end_offset_for("t", 0, 4)
        server.shutdown(socket.SHUT_RDWR)
    return caught.value


@pytest.mark.parametrize("length", range(4, 37))
def test_an_answer_that_is_cut_off_anywhere_is_asked_for_again(length):
    told = answered(lambda body: body[:length])
    assert (told.exit_code, told.hint.partition(";")[0]) == (3, "run the same command again")
    assert f"leader epochs of t-0: the answer of {length - 4} byte" in told.message


@pytest.mark.parametrize("at", [11, 13, 14, 18, 24], ids=["topics", "length", "topic", "partitions", "partition"])
def test_an_answer_about_another_partition_is_asked_for_again(at):
    told = answered(lambda body: body[:at] + bytes([body[at] + 1]) + body[at + 1 :])
    assert told.exit_code == 3
    assert "belongs to another partition" in told.message
