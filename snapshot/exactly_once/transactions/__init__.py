"""Transactions in the files of a broker: the records of coordinators and of partitions."""
