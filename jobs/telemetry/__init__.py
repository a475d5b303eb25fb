"""Metrics and lineage events. Sending takes at most two seconds per sink, and a failure never fails the job."""
