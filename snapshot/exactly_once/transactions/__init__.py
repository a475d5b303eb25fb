"""Transactions at rest: what coordinators and partitions say of them on disk, without a broker."""
