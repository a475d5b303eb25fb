"""Rebuild the producer snapshots that Kafka tiered storage needs, and tier nothing without one."""

from tiersnap.snapshot import __version__

__all__ = ["__version__"]
