"""Transactions on disk: records of coordinators and of partitions, without a broker."""
