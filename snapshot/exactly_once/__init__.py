"""Transactions and producers of a log, Kafka's behaviour as decision tables, and simulations of lost producer state."""
