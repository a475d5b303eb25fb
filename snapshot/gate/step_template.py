"""Next steps as data: words, and a command with typed holes. The module gate.printed_steps prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Hole(Enum):
    """A part of a command that depends on the host or the cluster. An unfilled hole is printed as its placeholder."""

    TIER = "run"  # the command that tiers, with its location: `run` for a fleet, `tier` on a host
    LOG_DIRS = "LOGDIR"
    SOURCES = "--source LOGDIR"
    REMOTE = "s3://bucket/prefix"  # the remote location, with the options for access
    CLUSTER = "--bootstrap-server HOST:PORT"  # the cluster, with the options for access
    SERVER = "HOST:PORT"  # a broker, for Kafka's own tools
    SEGMENT_FILE = "FILE"
    TOPIC_IDS = "FILE that holds topic ids"

    @property
    def placeholder(self) -> str:
        """Return the words that the user must replace."""
        return "FILE" if self is Hole.TOPIC_IDS else str(self.value)


Argv = tuple[str | Hole, ...]


@dataclass(frozen=True, slots=True)
class NextStep:
    """Words, the command that follows them, and a note about the command."""

    words: str = ""
    argv: Argv = ()  # the command and its arguments, without `tiersnap`; empty for a step without a command
    note: str = ""  # cost and effect of the command
    is_of_kafka: bool = False  # whether the command is one of Kafka's tools instead of tiersnap
