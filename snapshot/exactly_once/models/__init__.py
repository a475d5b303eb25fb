"""Kafka's answers as pure functions over plain values: coordinator, broker, client, and lost state."""
