"""The fold, the carry, and what a snapshot file is worth."""
