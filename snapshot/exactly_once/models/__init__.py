"""Kafka's answers and reactions as pure functions: coordinator, broker and Java client."""
