"""Free partitions whose copy task is stuck, while their broker runs."""
