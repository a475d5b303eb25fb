"""Rebuilding the missing snapshots of one host."""
