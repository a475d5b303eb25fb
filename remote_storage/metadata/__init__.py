"""Remote log segment metadata as Kafka records it."""
