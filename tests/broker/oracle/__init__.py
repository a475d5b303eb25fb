"""Kafka's own classes as judges: the fold (`fold`), kafka-dump-log (`dump`), a verdict on what was tiered (`judge`)."""
