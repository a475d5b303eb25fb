"""Find, judge and delete orphans and leftovers in remote storage."""
