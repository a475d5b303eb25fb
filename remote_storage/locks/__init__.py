"""Locks in remote storage: claims of segments, the lease of a warehouse, saved configs, and records of read-backs."""
