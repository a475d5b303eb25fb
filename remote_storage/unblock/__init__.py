"""Let stuck copy tasks of brokers continue, without a restart of the broker."""
