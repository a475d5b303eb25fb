"""The gate: verdicts on segments, trusted snapshots, exit codes and next steps."""
