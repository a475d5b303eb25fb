"""Watch the copy tasks of topics that were paused and resumed, and pause those topics again whose tasks did not look.

`publish`, `tier`, `run` and `unblock` do this by this module alone. A copy task keeps in memory how far remote storage
reaches. If it was inside an attempt while its topic was paused, it continues behind the segments that were
published meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tiersnap.remote_storage.errors import StillStuckError

_ROUNDS = 3


def watch_resumed(
    topics: Iterable[str], watch: Callable[[list[str]], Iterable[str]], pause: Callable[[str], object]
) -> list[str]:
    """Watch in at most three rounds, pausing again before the second and the third.

    Args:
        topics: topics that were paused and resumed once.
        watch: watches the copy tasks of topics; returns the topics whose tasks fail at published segments.
        pause: pauses copying of a topic and resumes it.

    Returns:
        The topics whose copy tasks still fail.
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
    """Return the error of copy tasks that did not read the published records after any pause."""
    return StillStuckError(
        f"{', '.join(topics)}: the copier goes on failing at what is published",
        hint="restart the leader: its copier then goes on behind what was published",
    )
