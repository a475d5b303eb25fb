"""What Kafka would answer, as pure functions over plain values: coordinator, broker, client, and what was lost."""
