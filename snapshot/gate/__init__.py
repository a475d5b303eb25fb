"""The gate: verdicts of segments, trusted snapshots, exit codes and next steps."""
