"""Examine a broker host: its log directories, disks and running brokers."""
