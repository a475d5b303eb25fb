"""Options of `tiersnap fetch`: which file of remote storage is meant."""

from __future__ import annotations

from dataclasses import dataclass

import click

from tiersnap.jobs.old_options.once import LAYOUTS, once
from tiersnap.jobs.old_options.together import as_one
from tiersnap.remote_storage.layouts.layout import IndexType

_INDEXES = {str(index).lower().replace("_", "-"): index for index in IndexType}


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """The segment of a partition that holds an offset, or one of its indexes.

    Attributes:
        topic_id, layout, segment_id: None where there is one alone, or the latest copy is meant.
        index: as it is called on the command line; None for the log.
    """

    topic: str
    partition: int
    offset: int
    index: str | None
    topic_id: str | None
    layout: str | None
    segment_id: str | None

    @property
    def index_type(self) -> IndexType | None:
        """None for the log."""
        return None if self.index is None else _INDEXES[self.index]


# Given to the command as `asked: FetchRequest`.
fetch_options = as_one(
    "asked",
    FetchRequest,
    once("--topic", required=True, help="The topic's name."),
    once("--partition", required=True, type=int),
    once("--offset", required=True, type=int, help="An offset in the segment."),
    once("--index", type=click.Choice(list(_INDEXES)), help="This index of the segment instead of its log."),
    once("--topic-id", help="Where the topic was made anew and has segments under several ids."),
    click.option("--layout", type=click.Choice(LAYOUTS), help="Where there are segments in both layouts."),
    once("--segment-id", help="Where several copies hold the offset; the latest is taken otherwise."),
)
