"""Restore partitions from remote storage into log directories."""
