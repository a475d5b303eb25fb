"""Brokers, clients and tiersnap under a seeded storm of faults, and a checker of what they told: chaos.md."""
