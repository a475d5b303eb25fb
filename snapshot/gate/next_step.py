"""A next step as data: words, and a command with typed holes. `gate.printed_steps` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Hole(Enum):
    """A part of a command that depends on the place; its value is printed if nothing fills it."""

    TIER = "run"  # the command that tiers: `run` for a fleet, `tier` on a host, with its location
    LOG_DIRS = "LOGDIR"
    SOURCES = "--source LOGDIR"
    REMOTE = "s3://bucket/prefix"  # the remote location, with the options by which it is reached
    CLUSTER = "--bootstrap-server HOST:PORT"  # with the options by which it is reached
    SERVER = "HOST:PORT"  # a broker, for Kafka's own tools
    SEGMENT_FILE = "FILE"
    TOPIC_IDS = "FILE that holds topic ids"

    @property
    def placeholder(self) -> str:
        """Return the words that a person replaces."""
        return "FILE" if self is Hole.TOPIC_IDS else str(self.value)


Argv = tuple[str | Hole, ...]


@dataclass(frozen=True, slots=True)
class NextStep:
    """Words, the command that follows them, and a note on that command."""

    words: str = ""
    argv: Argv = ()  # without `tiersnap`, the command first; empty if there are words alone
    note: str = ""  # the command's cost and effect
    is_of_kafka: bool = False  # the command is one of Kafka's tools, and not one of tiersnap
