"""The core of tiersnap: read Kafka logs, compute producer state, and decide which segments may be tiered."""

__version__ = "0.1.0"
