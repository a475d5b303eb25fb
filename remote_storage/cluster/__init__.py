"""A running cluster: its topics and configs, its records of remote segments, and what its copy tasks do."""
