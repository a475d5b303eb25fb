"""KIP-952's own example: four segments, one new producer in each, and a fifth segment about to be written.

The leader never stopped. A follower began with the empty snapshot that the leader had uploaded for the second segment,
and replicated the third and the fourth.
"""

from __future__ import annotations

from pathlib import Path

from tests.reference import log_builder as lb

NOW = lb.TIMESTAMP + 3_600_000  # ms, within a day of every write
BASES = (0, 100, 200, 300)
LOG_END = 400


def write_kip952_log(log_dir: Path, *, first_sequence: int = 0, again: int | None = None, **options) -> Path:
    """`kip952-0`: producer i writes one batch of one record in segment i, the rest are records without a producer.

    Args:
        first_sequence: of producer 1's batch.
        again: a second batch of producer 1 at this offset, in sequence.
    """
    segments: dict[int, list[bytes]] = {}
    for number, base in enumerate(BASES, 1):
        sequence = first_sequence if number == 1 else 0
        batch = lb.data_batch(base, 1, producer_id=number, epoch=0, base_sequence=sequence)
        rest = [lb.data_batch(base + 1, 99)]
        if again is not None and base < again < base + 100:
            second = lb.data_batch(again, 1, producer_id=1, epoch=0, base_sequence=first_sequence + 1)
            rest = [lb.data_batch(base + 1, again - base - 1), second, lb.data_batch(again + 1, base + 99 - again)]
        segments[base] = [batch, *rest]
    segments[LOG_END] = [lb.data_batch(LOG_END, 1)]
    return lb.write_partition(log_dir, "kip952", 0, segments, high_watermark=LOG_END + 1, indexes=True, **options)
