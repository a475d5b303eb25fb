"""Errors of brokers that pass by themselves: an election is under way, a broker starts, an answer is late.

Names of librdkafka. Follows the subclasses of org.apache.kafka.common.errors.RetriableException, and what librdkafka
says itself of a partition whose leader it does not know. `KafkaError.retriable()` does not help: it is about
transactions only.
"""

NO_CONNECTION = frozenset({"_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE"})
"""Nobody answers; the client logged the reason before."""

NO_GROUP = "GROUP_AUTHORIZATION_FAILED"
"""This user may not use the group that a consumer has to name; ours read what is assigned to them, without a group."""

PASSING = NO_CONNECTION | {
    NO_GROUP,
    "_UNKNOWN_PARTITION",  # also of a topic that is there, as long as nobody leads it
    "_NOENT",  # "No leaders found": nobody leads any of the partitions whose offsets are asked for
    "_DESTROY_BROKER",  # another one has its address since
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
    # A topic that was deleted between two requests: the next run does not ask after it.
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
}
