"""The meaning of a Kafka log: the pure core (bytes and Arrow in, Arrow and bytes out)."""

__version__ = "0.1.0"
