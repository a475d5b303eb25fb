"""Next steps that run Kafka's own tools."""

from __future__ import annotations

from tiersnap.snapshot.gate.step_template import Argv, Hole, NextStep

_SERVER: Argv = ("--bootstrap-server", Hole.SERVER)


def set_topic_config(topic: str, name: str, value: str) -> NextStep:
    """Return the step that sets a topic config."""
    argv = ("kafka-configs.sh", *_SERVER, "--alter", "--topic", topic, "--add-config", f"{name}={value}")
    return NextStep("", argv, is_of_kafka=True)


def abort_transaction(topic: str, partition: int, *producer: str) -> NextStep:
    """Return the step that makes the partition's leader write an abort marker.

    Args:
        producer: the options that name the producer, or the start offset of its transaction.
    """
    argv = ("kafka-transactions.sh", *_SERVER, "abort", "--topic", topic, "--partition", str(partition), *producer)
    return NextStep("", argv, is_of_kafka=True)


def terminate_transaction(transactional_id: str) -> NextStep:
    """Return the step that aborts a transaction of the two-phase protocol (KIP-939) and fences its producer.

    The step needs Kafka 4.1.
    """
    argv = ("kafka-transactions.sh", *_SERVER, "forceTerminateTransaction", "--transactionalId", transactional_id)
    return NextStep("", argv, is_of_kafka=True)
