"""What is in a store of a partition's segments: facts, found by listing and by reading manifests."""
