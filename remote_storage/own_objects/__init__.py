"""Our own JSON in remote storage: claims, leases, deletion records, saved configs; one conditional write."""
