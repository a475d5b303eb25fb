"""What a report says besides its readiness: the tables of a warehouse, this host, its disks."""
