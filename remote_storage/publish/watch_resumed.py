"""Watch copy tasks after a pause. If a task did not read the new records, pause its topic again.

`publish`, `tier`, `run` and `unblock` use this module. A copy task keeps the highest remote offset in memory. If it was
copying a segment during the whole pause, it does not read the records that were published meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tiersnap.remote_storage.errors import StillStuckError

_ROUNDS = 3


def watch_resumed(
    topics: Iterable[str], watch: Callable[[list[str]], Iterable[str]], pause: Callable[[str], object]
) -> list[str]:
    """Watch the copy tasks in at most three rounds. Before the second and the third round, pause failing topics again.

    Args:
        topics: names of topics that were paused and resumed once.
        watch: watches the copy tasks of topics; returns the topics whose tasks fail at published segments.
        pause: pauses copying of a topic and resumes it.

    Returns:
        The names of topics whose copy tasks still fail, ascending.
    """
    pending = sorted(topics)
    for number in range(_ROUNDS):
        if number:
            for topic in pending:
                pause(topic)
        if pending:
            pending = sorted(watch(pending))
    return pending


def still_stuck(topics: Iterable[str]) -> StillStuckError:
    """Return the error for copy tasks that did not read the published records in spite of the pauses."""
    return StillStuckError(
        f"{', '.join(topics)}: the copy task still fails at segments that are already published",
        hint="restart the broker that leads the partition: its copy task then continues after the published segments",
    )
