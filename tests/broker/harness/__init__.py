"""Real brokers for tests: jars, processes, disks, clients, damage. `scenarios` and `cases` are the way in."""
