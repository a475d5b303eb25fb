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
    """What tiersnap tiered has the producers of the log, and may know more, from before the first remote offset.

    It begins where the files begin, with what the broker's copy before them says, as a follower does. So what a broker
    that had lost its state said of a producer that wrote nothing since is no mistake of tiersnap's.
    """
    told: dict[str, Event] = {}  # the broker's newest copy, by topic
    for each in facts.snapshots:
        if each["folded"] is None:
            continue
        if not each["ours"]:
            told[each["topic"]] = each
            continue
        there, begun = _by_producer(each["entries"]), told.get(each["topic"])
        for entry in each["folded"]:
            is_theirs = (
                begun is not None
                and entry in begun["folded"]
                and there.get(entry[0]) == _by_producer(begun["entries"]).get(entry[0])
            )
            if there.get(entry[0]) != entry and not is_theirs:
                where = f"{each['topic']} {each['id']} at {each['offset']}"
                yield Violation("wrong snapshot", f"{where}: {there.get(entry[0])}, and the log says {entry}")


def _by_producer(entries: list[list[int]]) -> dict[int, list[int]]:
    return {entry[0]: entry for entry in entries}


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
