"""The answers of brokers and coordinators: Kafka's error codes and two kinds of success."""

from __future__ import annotations

from enum import StrEnum


class Answer(StrEnum):
    """An answer to one request. Names without a comment are error codes of org.apache.kafka.common.protocol.Errors."""

    NONE = "NONE"  # a coordinator's answer: the request succeeded
    ACCEPT = "ACCEPT"  # a broker's answer: the batch is appended
    DUPLICATE_ACK = "DUPLICATE_ACK"  # a broker's answer: no append, success with the earlier offsets
    OUT_OF_ORDER_SEQUENCE_NUMBER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    DUPLICATE_SEQUENCE_NUMBER = "DUPLICATE_SEQUENCE_NUMBER"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_TRANSACTION_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    TRANSACTION_COORDINATOR_FENCED = "TRANSACTION_COORDINATOR_FENCED"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    UNKNOWN_PRODUCER_ID = "UNKNOWN_PRODUCER_ID"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    INVALID_REQUEST = "INVALID_REQUEST"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    CLUSTER_AUTHORIZATION_FAILED = "CLUSTER_AUTHORIZATION_FAILED"
    TOPIC_AUTHORIZATION_FAILED = "TOPIC_AUTHORIZATION_FAILED"
    GROUP_AUTHORIZATION_FAILED = "GROUP_AUTHORIZATION_FAILED"
    OPERATION_NOT_ATTEMPTED = "OPERATION_NOT_ATTEMPTED"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    DELIVERY_TIMED_OUT = "DELIVERY_TIMED_OUT"  # the client's own error, delivery.timeout.ms after the batch was sent

    @property
    def appends(self) -> bool:
        """Return whether the broker appends the batch."""
        return self is Answer.ACCEPT

    @property
    def is_error(self) -> bool:
        """Return whether the client receives an error."""
        return self not in (Answer.NONE, Answer.ACCEPT, Answer.DUPLICATE_ACK)


def lets_in(leader: Answer, replica: Answer) -> bool:
    """Return whether the replica would append a write that the leader refuses."""
    return replica.appends and not leader.appends
