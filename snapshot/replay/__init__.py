"""Replay state deltas in offset order, and compare each snapshot file with the state at its offset."""
