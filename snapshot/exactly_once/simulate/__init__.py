"""Simulation of a failover: the answers that producers would get if a replica with a given state led now."""
