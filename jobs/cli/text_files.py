"""Text files that options name: client properties (--command-config), and topic ids (--topic-ids).

Brokers before 2.8 wrote no partition.metadata, so that their topics have no id on disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tiersnap.snapshot.errors import SourceNotFoundError, UsageError

# Properties of Kafka's Java clients that librdkafka has under another name.
_JAVA_NAMES = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.password": "nothing: ssl.ca.location is a PEM file",
    "ssl.keystore.type": "nothing: ssl.keystore.location is a PKCS#12 file",
}
_MOST_SHOWN = 80  # characters of a line


def _numbered_lines(path: Path, option: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, counted from 1; SourceNotFoundError without such a file, UsageError if it is not UTF-8."""
    try:
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    except OSError as error:
        raise SourceNotFoundError(f"{path}: {error.strerror}", hint=f"{option} names a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8", hint=f"{option} names a text file") from error


def read_properties(path: Path) -> dict[str, str]:
    """Return the lines `name=value` of a file; `#` begins a comment line.

    Raises:
        SourceNotFoundError: there is no such file.
        UsageError: a line has no `=`, or a name is of Kafka's Java clients only.
    """
    properties: dict[str, str] = {}
    for number, line in _numbered_lines(path, "--command-config"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise UsageError(f"{path}: line {number} is not `name=value`")  # not shown: it may hold a password
        if name in _JAVA_NAMES:
            raise UsageError(
                f"{path}: line {number}: {name} is a property of Kafka's Java clients",
                hint=f"librdkafka's is {_JAVA_NAMES[name]}",
            )
        properties[name] = value
    return properties


def read_topic_ids(path: Path | None) -> dict[str, str]:
    """Return the lines `topic id`, as from `kafka-topics --describe`; `#` begins a comment; none without a file.

    Raises:
        SourceNotFoundError: there is no such file.
        UsageError: not UTF-8, a line is not a topic and an id, or two topics have one id.
    """
    from tiersnap.snapshot.formats.checkpoints import is_topic_id, is_topic_name

    if path is None:
        return {}
    ids: dict[str, str] = {}
    topics: dict[str, str] = {}
    for number, line in _numbered_lines(path, "--topic-ids"):
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
    """Return the `wanted` topics that have an id but were not found: their names may be misspelt."""
    from tiersnap.snapshot.log.selection import matches_topic

    return tuple(sorted(topic for topic in topic_ids.keys() - set(found) if matches_topic(topic, wanted)))
