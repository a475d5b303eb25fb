"""A partition back from remote storage: what to fetch, where to, and the folder it becomes."""
