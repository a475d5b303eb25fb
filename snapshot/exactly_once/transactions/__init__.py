"""Transactions on disk: the records of coordinators and of partitions, read without a broker."""
