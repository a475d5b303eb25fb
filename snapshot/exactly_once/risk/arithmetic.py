"""KIP-952's arithmetic as functions: 5 MB/s, segments of 1 GB, a day.

The KIP says that a producer has to be silent for about 15 minutes around the boundary, and does not say that a client
would have given up sending again by itself long before: after delivery.timeout.ms, two minutes by default.
Rates are bytes a second, times seconds.
"""

from __future__ import annotations


def segment_seconds(segment_bytes: float, bytes_per_second: float) -> float:
    """How long it takes to write a segment: 204.8 s for 1024 MB at 5 MB/s."""
    return segment_bytes / bytes_per_second


def segments_per_expiration(segment_bytes: float, bytes_per_second: float, expiration: float) -> float:
    """Segments written while a producer expires: 421.9 in a day."""
    return expiration * bytes_per_second / segment_bytes


def idle_seconds(segments: int, segment_bytes: float, bytes_per_second: float) -> float:
    """How long a producer is silent while so many whole segments are written after its own."""
    return segments * segment_seconds(segment_bytes, bytes_per_second)


def automatic_retry_rate(segment_bytes: float, delivery_timeout: float) -> float:
    """Bytes a second from which on a client may still send a batch again by itself with a segment in between."""
    return segment_bytes / delivery_timeout
