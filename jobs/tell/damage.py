"""What `audit` and `decode` say of segments that were not decoded to their end, beside the findings themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.damage import Damage


def summary_of(damage: Damage) -> dict[str, int]:
    """Members of a summary, of what there is."""
    counts = {"damage_count": sum(damage.counts.values()), "legacy_count": damage.legacy_count}
    return {name: count for name, count in counts.items() if count}


def talk_of(damage: Damage) -> list[str]:
    """Lines for people."""
    lines = []
    if damage.more:
        lines.append(f"{count_of(damage.more, 'finding')} more of damage: tiersnap scan LOGDIR shows all")
    if damage.counts:
        lines.append("what lies behind damage in a segment was not decoded: tiersnap scan LOGDIR says what to do")
    if damage.legacy_count:
        segments = count_of(damage.legacy_count, "segment ends", "segments end")
        lines.append(f"{segments} with entries of magic 0 or 1, which have no producers: they were not decoded")
    return lines
