"""What would happen to a partition's producers if a replica with a given state became leader now."""
