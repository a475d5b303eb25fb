"""Which partition of `__transaction_state` holds a transactional id, and whose broker is therefore its coordinator.

    hash       = Java's String.hashCode: h = 31 * h + c over the UTF-16 code units, in 32 signed bits with wrap-around
    partition  = |hash| % partition count, where |-2147483648| counts as 0

Follows TransactionStateManager.partitionFor and org.apache.kafka.common.utils.Utils.abs, which is neither Java's abs
nor a cleared sign bit. The partition count (transaction.state.log.num.partitions, 50 by default) is nowhere in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np

_MASK = 0xFFFFFFFF
_SMALLEST = -(1 << 31)
# More than anybody gives to this topic, and few enough to try them all.
MOST_PARTITIONS = 1000
_SAMPLE = 4000


def string_hash(text: str) -> int:
    """Return Java's String.hashCode, -2^31 .. 2^31 - 1."""
    hashed = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        hashed = 31 * hashed + (high << 8 | low) & _MASK
    return hashed - (1 << 32) if hashed >> 31 else hashed


def positive_hash(text: str) -> int:
    """Return `Utils.abs` of the hash, 0 .. 2^31 - 1."""
    hashed = string_hash(text)
    return 0 if hashed == _SMALLEST else abs(hashed)


def partition_of(transactional_id: str, partition_count: int) -> int:
    """Return the partition, 0 .. partition_count - 1."""
    return positive_hash(transactional_id) % partition_count


def likely_counts(found_in: Mapping[str, int], at_least: int) -> list[int]:
    """Return the partition counts that put the most ids where they were found, ascending.

    Two or three ids leave one count as a rule, none at all leave every count from `at_least` to MOST_PARTITIONS.

    Args:
        found_in: partition by transactional id; a few thousand of them are looked at.
    """
    sample = list(islice(found_in.items(), _SAMPLE))
    hashes = np.array([positive_hash(transactional_id) for transactional_id, _ in sample], np.int64)
    partitions = np.array([partition for _, partition in sample], np.int64)
    counts = range(max(at_least, 1), max(at_least, MOST_PARTITIONS) + 1)
    right = [int((hashes % count == partitions).sum()) for count in counts]
    return [count for count, number in zip(counts, right, strict=True) if number == max(right)]
