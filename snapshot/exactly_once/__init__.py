"""Transactions and producers of a log, decision tables of Kafka's classes, and simulations of lost producer state."""
