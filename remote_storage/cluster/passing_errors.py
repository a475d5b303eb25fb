"""Transient errors of brokers: an election is under way, a broker starts, an answer is late.

The names are librdkafka's. They follow the subclasses of org.apache.kafka.common.errors.RetriableException, plus
librdkafka's own errors for a partition with an unknown leader. `KafkaError.retriable()` does not help: it is about
transactions only.
"""

NO_CONNECTION = frozenset({"_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE"})
"""No broker answers; the client logged the reason before."""

NO_GROUP = "GROUP_AUTHORIZATION_FAILED"
"""This user may not use the group that a consumer must name; tiersnap's consumers use assigned partitions instead."""

PASSING = NO_CONNECTION | {
    NO_GROUP,
    "_UNKNOWN_PARTITION",  # also for an existing topic while it has no leader
    "_NOENT",  # "No leaders found": none of the requested partitions has a leader
    "_DESTROY_BROKER",  # another broker took over its address
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
    # The topic was deleted between two requests; the next run will not request it.
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
}
