"""A segment into remote storage."""
