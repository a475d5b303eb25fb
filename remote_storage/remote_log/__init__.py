"""The remote inventory of a partition: facts, found by listing and by reading manifests."""
