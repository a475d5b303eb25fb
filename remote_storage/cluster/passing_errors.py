"""Transient errors of brokers: an election is running, a broker starts, or an answer is late.

librdkafka names these errors. They are the subclasses of org.apache.kafka.common.errors.RetriableException, and
librdkafka's own errors for a partition with an unknown leader. `KafkaError.retriable()` does not suffice, because
librdkafka sets it only for errors of transactions.
"""

NO_CONNECTION = frozenset({"_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE"})
"""Errors if no broker answers. The client's error callback received the reason earlier."""

NO_GROUP = "GROUP_AUTHORIZATION_FAILED"
"""Error if this user may not use the consumer group. tiersnap's consumers do not need the group."""

PASSING = NO_CONNECTION | {
    NO_GROUP,
    "_UNKNOWN_PARTITION",  # also an existing partition without a leader
    "_NOENT",  # "No leaders found": none of the requested partitions has a leader
    "_DESTROY_BROKER",  # another broker took over the address of this broker
    "_UNKNOWN_BROKER",
    "_UNKNOWN_TOPIC",
    "_RETRY",
    "_WAIT_CACHE",
    "_WAIT_COORD",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "REQUEST_TIMED_OUT",
    "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_CONTROLLER",
    "KAFKA_STORAGE_ERROR",
    "LISTENER_NOT_FOUND",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "THROTTLING_QUOTA_EXCEEDED",
    # The topic was deleted between two requests. The next run will not request it.
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
}
