"""What a store holds of a partition: facts, found by listing and by reading manifests."""
