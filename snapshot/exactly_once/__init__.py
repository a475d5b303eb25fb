"""Transactions and producers of a log, decision tables of Kafka's classes, and effects of lost producer state."""
