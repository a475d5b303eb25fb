"""Several log directories in one call: words, commas and globs, as `log.dirs` of server.properties lists them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.once import once
from tiersnap.jobs.old_options.together import with_options
from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.formats.checkpoints import TopicPartition
from tiersnap.snapshot.log.log_dir import split_folder_name
from tiersnap.snapshot.log.places import each_once
from tiersnap.snapshot.log.selection import Selection


def expand(words: Iterable[str]) -> tuple[str, ...]:
    """The directories that the words name, in their order and each once.

    A word that is there is taken as it is, whatever characters it holds; a URI is never taken apart.

    Raises:
        SourceNotFoundError: a glob matches no directory.
    """
    return each_once(uri for word in words for uri in _each(word))


def _each(word: str) -> Iterator[str]:
    if os.path.lexists(word) or "://" in word or word.startswith("file:"):
        yield word
        return
    for part in filter(None, (each.strip() for each in word.split(","))):
        if os.path.lexists(part) or not glob.has_magic(part):
            yield part
            continue
        pattern = str(Path(part).expanduser())
        matches = sorted(each for each in glob.glob(pattern) if Path(each).is_dir())  # noqa: PTH207 - as a shell does
        if not matches:
            raise SourceNotFoundError(
                f"{part}: no directory matches", hint="name the entries of log.dirs, as server.properties has them"
            )
        yield from matches


class PartitionName(click.ParamType[TopicPartition]):
    """`<topic>-<partition>`, as the folder is called."""

    name = "topic-partition"

    def text(self, value: TopicPartition) -> str:
        """A value as the user would write it."""
        return "-".join(map(str, value))

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> TopicPartition:
        """Parse, or fail as a usage error."""
        if isinstance(value, tuple):
            return value
        found = split_folder_name(str(value))
        if found is None:
            self.fail(f"{value!r} is not <topic>-<partition>, as in orders-0", param, ctx)
        return found


class _Word(click.ParamType[str]):
    """A word; in TIERSNAP_SOURCE commas part them, as in log.dirs."""

    name = "text"
    envvar_list_splitter = ","

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it is."""
        return str(value)


def log_dirs_argument(name: str, *, required: bool = True) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """One or more log directories, given to the command as `log_dirs: tuple[str, ...]`; `name` is for the help."""

    def expanded(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
        return expand(words)

    return click.argument(
        "log_dirs",
        type=_Word(),
        metavar=f"{name}...",
        nargs=-1,
        required=required,
        envvar="TIERSNAP_SOURCE",
        callback=expanded,
    )


partition_option = once(
    "--partition",
    "partitions",
    multiple=True,
    type=PartitionName(),
    metavar="TOPIC-PARTITION",
    help="Only this partition; may be given several times.",
)


def selection_options(command: Callable[..., object]) -> Callable[..., object]:
    """--topic and --partition, given to the command as `selection: Selection`."""

    @wraps(command)
    def with_selection(
        *args: object, topic: re.Pattern[str] | None, partitions: tuple[TopicPartition, ...], **kwargs: object
    ) -> object:
        return command(*args, selection=Selection(topic, frozenset(partitions)), **kwargs)

    return with_options(with_selection, (params.topic_option, partition_option))
