"""Free partitions whose copy task is stuck, without a restart of the broker."""
