"""What a Kafka log means: the pure core (bytes and Arrow in, Arrow and bytes out)."""

from snapshot.kernel_cache import ensure_place

__version__ = "0.1.0"

ensure_place()
