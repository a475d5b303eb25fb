"""Metrics and lineage on their way out: best effort, within two seconds, never the reason why a job fails."""
