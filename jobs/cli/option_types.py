"""Option types: each parses a word of the command line, and writes a value back as a word."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import click

from tiersnap.jobs.cli.escaped_text import shown
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.masking import masked
from tiersnap.snapshot.units import format_duration, parse_duration, parse_size

if TYPE_CHECKING:
    from tiersnap.snapshot.exactly_once.models.eras import BrokerEra, ClientEra
    from tiersnap.snapshot.formats.checkpoints import TopicPartition

T = TypeVar("T")
_CLOCK = "tiersnap.clock"
_LAST_MS = 253_402_300_799_999  # of the year 9999
_MOST_SHOWN = 40


class OnceOption(click.Option):
    """An option that the command line may set, but neither the environment nor a settings file."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return None, so that click ignores the environment."""
        return None


once = partial(click.option, cls=OnceOption)


class Parsed(click.ParamType[T]):
    """An option type made from two functions.

    Args:
        name: name of the type in the help.
        parse: returns the value for a word. If it raises ValueError, the user gets a usage error.
        text: returns the word for a value. Without it, `str` makes the word.
    """

    def __init__(self, name: str, parse: Callable[[str], T], text: Callable[[T], str] | None = None) -> None:
        self.name, self._parse = name, parse
        if text is not None:
            self.text = text

    def convert(self, value: T | str, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return the value for a word. A value that is no str, such as a default, is returned unchanged."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def clock(ctx: click.Context | None = None) -> int:
    """Return the current time in epoch ms. While a command runs, all calls return the time of the first call."""
    ctx = ctx or click.get_current_context(silent=True)
    if ctx is None:
        return time.time_ns() // 1_000_000
    known: dict[str, int] = ctx.find_root().meta
    return known.setdefault(_CLOCK, time.time_ns() // 1_000_000)


def parse_time(text: str) -> int:
    """Return a time in epoch ms.

    Args:
        text: an ISO 8601 time (UTC if it has no zone), or epoch ms.

    Raises:
        ValueError: `text` is neither an ISO 8601 time nor a number of ms.
    """
    text = text.strip()
    if re.fullmatch("[0-9]{1,15}", text) and int(text) <= _LAST_MS:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        moment = moment.astimezone(UTC)  # a zone can move the time out of the years 1 to 9999
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text[:_MOST_SHOWN]!r} is not a time; use 2026-11-21T12:45:00Z or epoch milliseconds"
        ) from error
    return int(moment.timestamp() * 1000)


def _time(text: str) -> int:
    return clock() if text == "now" else parse_time(text)


def _time_text(value: int | None) -> str:
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC).isoformat()
    return "now"


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r}: {error}; use a regular expression, such as 'orders|payments-.*'") from error


def _partition(text: str) -> TopicPartition:
    from tiersnap.snapshot.log.log_dir import split_folder_name

    found = split_folder_name(text)
    if found is None:
        raise ValueError(f"{text!r} is not <topic>-<partition>, such as orders-0")
    return found


def _log_start(text: str) -> tuple[TopicPartition, int]:
    name, _, offset = text.rpartition("=")
    if not re.fullmatch("[0-9]{1,18}", offset):
        raise ValueError(f"{text!r} is not TOPIC-PARTITION=OFFSET, such as orders-0=100")
    return _partition(name), int(offset)


def _broker(text: str) -> BrokerEra:
    from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS, era_of

    return era_of(text, BROKER_ERAS)


def _client(text: str) -> ClientEra:
    from tiersnap.snapshot.exactly_once.models.eras import CLIENT_ERAS, era_of

    return era_of(text, CLIENT_ERAS)


def _first_release(era: BrokerEra | ClientEra) -> str:
    return ".".join(map(str, era.first))


def _release(text: str) -> str:
    _broker(text)
    return text


def _http_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError(f"{shown(url)} is no http URL")
    return url


def _servers(text: str) -> str:
    """Return the text unchanged.

    Raises:
        ValueError: none of the servers has a port, or a port is outside 1 to 65535.
    """
    ports = [server.strip().rpartition(":")[2] for server in text.split(",")]
    if not any(ports) or any(map(_is_out_of_range, ports)):
        raise ValueError(f"{shown(text)!r} is not HOST:PORT with a port from 1 to 65535")
    return text


def _is_out_of_range(port: str) -> bool:
    # librdkafka would use the last 16 bits of a larger number as the port.
    return port.isdecimal() and not 0 < int(port) < 1 << 16


def _place(text: str) -> str:
    # A shell variable that is not set gives "", which would be the working directory.
    if not text.strip():
        raise ValueError(f"{text!r} is not a path or URI")
    return text


def _time_or_boundary(text: str) -> int | None:
    if text == "boundary":
        return None
    return _time(text)


def _time_or_boundary_text(value: int | None) -> str:
    if value is None:
        return "boundary"
    return _time_text(value)


DURATION = Parsed("duration", parse_duration, format_duration)  # milliseconds; None for `none`
SIZE = Parsed("size", parse_size)  # bytes
TIME = Parsed("time", _time, _time_text)  # epoch milliseconds
TIME_OR_BOUNDARY = Parsed("time", _time_or_boundary, _time_or_boundary_text)  # epoch milliseconds; None for `boundary`
PATTERN = Parsed("regex", _pattern)  # an expression that must match a whole topic name
PARTITION = Parsed("topic-partition", _partition, lambda value: "-".join(map(str, value)))
# A partition and its log start offset.
LOG_START = Parsed("log-start", _log_start, lambda value: f"{value[0][0]}-{value[0][1]}={value[1]}")
# A release such as 3.9 or 3.9.1. The three types return a BrokerEra, a ClientEra, and the text as typed.
BROKER_RELEASE = Parsed("release", _broker, _first_release)
CLIENT_RELEASE = Parsed("release", _client, _first_release)
RELEASE = Parsed("release", _release)
HTTP_URL = Parsed("url", _http_url)
SERVERS = Parsed("servers", _servers)
PLACE = Parsed("text", _place)


class LocalPath(click.Path):
    """A path on the local disk. A URI is a usage error, because as a path it would create a folder such as `s3:`."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path.

        Raises:
            click.BadParameter: the value is a URI, a folder if `dir_okay` is False, or a file if `file_okay` is False.
        """
        text = str(value)
        if "://" in text or text.startswith(("s3:", "file:", "hdfs:")):
            self.fail(f"{masked(text)!r} is a URI, but this option takes a path on the local disk", param, ctx)
        super().convert(text, param, ctx)
        return Path(text)


class Word(click.ParamType[str]):
    """The type of LOGDIR: any word. In the variable TIERSNAP_SOURCE, commas separate the words, as in log.dirs."""

    name = "text"
    envvar_list_splitter = ","

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word unchanged."""
        return str(value)


def expand(words: Iterable[str]) -> tuple[str, ...]:
    """Split words at commas, expand globs, and return the directories without duplicates, in the order of the words.

    An existing path or a URI is neither split nor expanded, even if it contains commas or `*`.

    Raises:
        SourceNotFoundError: a glob matches no directory.
    """
    words = tuple(words)
    if not words:
        return ()
    from tiersnap.snapshot.log.places import each_once

    return each_once(chain.from_iterable(map(_each, words)))


def _each(word: str) -> Iterator[str]:
    if _is_whole(word):
        yield word
        return
    for part in filter(None, map(str.strip, word.split(","))):
        yield from _matches(part) if _is_glob(part) else [part]


def _is_whole(word: str) -> bool:
    return os.path.lexists(word) or "://" in word or word.startswith("file:")


def _is_glob(part: str) -> bool:
    return glob.has_magic(part) and not os.path.lexists(part)


def _matches(part: str) -> list[str]:
    pattern = str(Path(part).expanduser())
    matches = sorted(each for each in glob.glob(pattern) if Path(each).is_dir())  # noqa: PTH207 - as a shell does
    if not matches:
        raise SourceNotFoundError(
            f"{part}: no directory matches", hint="give the directories in log.dirs of the broker's server.properties"
        )
    return matches
