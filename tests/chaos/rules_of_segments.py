"""What must hold of remote storage: one visible copy, and nothing that nobody knows.

Two copies of brokers may overlap: a new leader that rolled elsewhere copies the whole segment in which remote storage
ends (RemoteLogManager.RLMCopyTask). A copy of tiersnap's that another one has altogether is one too many.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.facts import Facts, Partition
from tests.chaos.history import Event
from tests.chaos.violation import Violation


def twice(facts: Facts) -> Iterator[Violation]:
    """No copy of tiersnap's has offsets that another visible one has altogether, or the other way round."""
    for topic, partition in facts.partitions.items():
        visible = [each for each in facts.segments if each["topic"] == topic and is_visible(each, partition)]
        for number, one in enumerate(visible):
            for other in visible[number + 1 :]:
                if (one["ours"] or other["ours"]) and (_within(one, other) or _within(other, one)):
                    yield Violation("two copies", f"{topic}: {_shown(one)} and {_shown(other)}")


def unknown(facts: Facts) -> Iterator[Violation]:
    """Every file is of a segment that the cluster knows, or is named by `maintain remove-orphans`."""
    known = {each["id"] for each in facts.segments if each["state"] != "DELETE_SEGMENT_FINISHED"}
    for each in facts.objects:
        if each["id"] not in known and not each["named"]:
            yield Violation("unknown object", f"{each['topic']} {each['topic_id']}: {each['key']}")


def missing(facts: Facts) -> Iterator[Violation]:
    """Every visible segment has its files."""
    files: dict[str, int] = {}
    for each in facts.objects:
        files[each["id"]] = files.get(each["id"], 0) + 1
    for topic, partition in facts.partitions.items():
        for each in facts.segments:
            if each["topic"] == topic and is_visible(each, partition) and files.get(each["id"], 0) < 5:
                yield Violation("missing objects", f"{topic}: {_shown(each)} has {files.get(each['id'], 0)} files")


def wrong_snapshot(facts: Facts) -> Iterator[Violation]:
    """What tiersnap tiered has the producers of the log, and may know more, from before the first remote offset."""
    for each in facts.snapshots:
        if not each["ours"] or each["folded"] is None:
            continue
        there = {entry[0]: entry for entry in each["entries"]}
        for entry in each["folded"]:
            if there.get(entry[0]) != entry:
                where = f"{each['topic']} {each['id']} at {each['offset']}"
                yield Violation("wrong snapshot", f"{where}: {there.get(entry[0])}, and the log says {entry}")


def stuck(facts: Facts) -> Iterator[Violation]:
    """With tiersnap beside them, copiers come to the active segment, and everything before it leaves the local disk."""
    for topic, partition in facts.partitions.items() if facts.commands else ():
        if partition.local_start < partition.active <= partition.stable:
            where = f"from {partition.local_start} to {partition.active}"
            yield Violation(
                "stuck", f"{topic}: closed segments {where} are still local: they are not in remote storage"
            )


def is_visible(segment: Event, partition: Partition) -> bool:
    """Whether readers are given it: finished, of this topic, in the lineage, not wholly below the log start."""
    if segment["state"] != "COPY_SEGMENT_FINISHED" or segment["topic_id"] != partition.topic_id:
        return False
    if segment["end"] < partition.log_start:
        return False
    epochs = segment["epochs"]
    return all(partition.holds(epoch, start) for epoch, start in epochs) and partition.holds(
        epochs[-1][0], segment["end"]
    )


def _within(one: Event, other: Event) -> bool:
    return bool(other["start"] <= one["start"] and one["end"] <= other["end"])


def _shown(segment: Event) -> str:
    whose = "tiersnap" if segment["ours"] else "a broker"
    return f"{segment['id']} of {whose}, {segment['start']} to {segment['end']}, epochs {segment['epochs']}"


RULES = (twice, unknown, missing, wrong_snapshot, stuck)
