"""List log directories and partitions, and read the batches and records of their segments."""
