"""Simulate the election of a replica with a given state: what its producers would meet now."""
