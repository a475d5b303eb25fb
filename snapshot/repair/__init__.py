"""Rebuild the missing snapshots and small files of one host's log directories."""
