"""Rebuild missing snapshots, indexes and checkpoints in the log directories of one host."""
