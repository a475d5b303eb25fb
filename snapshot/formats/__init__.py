"""Kafka's storage formats, one a module: bytes to entries and back."""
