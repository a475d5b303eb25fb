"""Topic ids for topics that have none on disk: brokers before 2.8 wrote no partition.metadata."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from tiersnap.snapshot.errors import SourceNotFoundError, UsageError
from tiersnap.snapshot.formats.checkpoints import is_topic_id, is_topic_name
from tiersnap.snapshot.log.selection import matches_topic

_MOST_SHOWN = 80  # characters of a line


def read_topic_ids(path: Path) -> dict[str, str]:
    """Lines `topic id`, as from `kafka-topics --describe`; `#` begins a comment.

    Raises:
        SourceNotFoundError: there is no such file.
        UsageError: not UTF-8, a line is not a topic and an id, or two topics have one id.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SourceNotFoundError(f"{path}: {error.strerror}", hint="--topic-ids names a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8", hint="--topic-ids names a text file") from error
    ids: dict[str, str] = {}
    topics: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or not (is_topic_name(words[0]) and is_topic_id(words[1])):
            raise UsageError(
                f"{path}: line {number} is not `topic id`: {line[:_MOST_SHOWN]!r}",
                hint="an id has 22 characters; kafka-topics --describe --topic NAME prints it as TopicId",
            )
        topic, topic_id = words
        if (other := topics.setdefault(topic_id, topic)) != topic:
            raise UsageError(
                f"{path}: line {number}: {topic} has the id of {other}",
                hint="an id is of one topic; kafka-topics --describe --topic NAME prints it as TopicId",
            )
        ids[topic] = topic_id
    return ids


def unknown_topics(
    topic_ids: Mapping[str, str], found: Collection[str], wanted: re.Pattern[str] | None
) -> tuple[str, ...]:
    """Topics with an id, of those that are `wanted`, of which nothing was found: a name may be misspelt."""
    return tuple(sorted(topic for topic in topic_ids.keys() - set(found) if matches_topic(topic, wanted)))
