"""Replay: state deltas in offset order, the state at each snapshot offset, and how the file there compares."""
