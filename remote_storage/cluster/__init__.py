"""A running cluster: its topics and configs, its records of remote segments, and the state of its copy tasks."""
