"""A running cluster: its topics and settings, its record of remote segments, and what may be published there."""
