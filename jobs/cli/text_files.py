"""Read the text files of --command-config (client properties) and --topic-ids.

--topic-ids is for topics without an id on disk: brokers before Kafka 2.8 wrote no partition.metadata.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tiersnap.snapshot.errors import SourceNotFoundError, UsageError

# Properties of Kafka's Java clients, and the properties of librdkafka that replace them.
_JAVA_NAMES = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.password": "no password: ssl.ca.location is a PEM file",
    "ssl.keystore.type": "no type: ssl.keystore.location is a PKCS#12 file",
}
_MOST_SHOWN = 80  # characters of a line in a message


def _numbered_lines(path: Path, option: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers. The first line has the number 1.

    Raises:
        SourceNotFoundError: the file does not exist, or cannot be read.
        UsageError: the file is not UTF-8.
    """
    try:
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    except OSError as error:
        raise SourceNotFoundError(f"{path}: {error.strerror}", hint=f"give a text file as {option}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8", hint=f"give a text file as {option}") from error


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties in the `name=value` lines of a file. A line that begins with `#` is a comment.

    Raises:
        SourceNotFoundError: the file does not exist, or cannot be read.
        UsageError: the file is not UTF-8, a line has no `=`, or librdkafka lacks the property (_JAVA_NAMES).
    """
    properties: dict[str, str] = {}
    for number, line in _numbered_lines(path, "--command-config"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = map(str.strip, line.partition("="))
        if not equals or not name:
            # The message does not quote the line, which may contain a password.
            raise UsageError(f"{path}: line {number} is not `name=value`")
        if name in _JAVA_NAMES:
            raise UsageError(
                f"{path}: line {number}: {name} is a property of Kafka's Java clients",
                hint=f"librdkafka needs {_JAVA_NAMES[name]}",
            )
        properties[name] = value
    return properties


def read_topic_ids(path: Path | None) -> dict[str, str]:
    """Return topic ids by topic, from the `topic id` lines of a file. `#` begins a comment.

    Args:
        path: the file; None for an empty dict.

    Raises:
        SourceNotFoundError: the file does not exist, or cannot be read.
        UsageError: the file is not UTF-8, a line is not a topic and an id, or two topics have the same id.
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
                hint="every topic has its own id; kafka-topics --describe --topic NAME prints it as TopicId",
            )
        ids[topic] = topic_id
    return ids


def unknown_topics(
    topic_ids: Mapping[str, str], found: Collection[str], wanted: re.Pattern[str] | None
) -> tuple[str, ...]:
    """Return the topics of --topic-ids that are in no log directory. The user may have misspelt their names.

    Args:
        topic_ids: topic ids by topic.
        found: topics of the log directories.
        wanted: pattern of --topic; topics that do not match it are left out.
    """
    from tiersnap.snapshot.log.selection import matches_topic

    return tuple(sorted(topic for topic in topic_ids.keys() - set(found) if matches_topic(topic, wanted)))
