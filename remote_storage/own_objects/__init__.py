"""Our own JSON in remote storage: claims, leases, saved configs; one conditional write."""
