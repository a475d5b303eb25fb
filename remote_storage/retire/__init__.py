"""Remote segments that retention has passed, orphans and leftovers: found, judged and deleted."""
