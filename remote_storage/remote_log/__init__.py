"""List and read the remote segments, claims and snapshots of a partition."""
