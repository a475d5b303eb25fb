"""Sending metrics and lineage: best effort, at most two seconds, and a failure never fails the job."""
