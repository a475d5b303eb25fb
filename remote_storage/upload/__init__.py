"""Upload segments to remote storage."""
