"""`tiersnap restore fetch`: a remote segment, or one of its indexes, into a file or a pipe, verified."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click
from msgspec import UNSET, UnsetType

from tiersnap.jobs import options as opt
from tiersnap.jobs.command import command
from tiersnap.jobs.option_types import LocalPath, once
from tiersnap.jobs.output import Output
from tiersnap.jobs.sentences import LeaderEpochs
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment

STDOUT = Path("-")
_INDEXES = ("offset", "timestamp", "producer-snapshot", "leader-epoch", "transaction")
_CHECKED = {
    None: "verified: the CRC-32C of every batch",
    "leader-epoch": "verified: the leader epochs that the segment's metadata tells",
    "producer-snapshot": "well-formed; not compared with the log: tiersnap verify LOGDIR --remote "
    "s3://bucket/prefix compares what brokers have",
}


@dataclass(frozen=True, slots=True)
class FetchedCopy:
    """A copy that holds the offset of `restore fetch`."""

    COLUMNS: ClassVar = ("partition", "base_offset", "next_base_offset", "bytes", "segment_id", "taken", "key")
    partition: str
    topic_id: str | None
    base_offset: int
    next_base_offset: int
    bytes: int
    segment_id: str
    leader_epochs: LeaderEpochs
    taken: str
    key: str
    file: str | UnsetType = UNSET


@command(FetchedCopy)
@opt.remote_option
@once("--topic", required=True, help="The topic's name.")
@once("--partition", required=True, type=int)
@once("--offset", required=True, type=int, help="An offset in the segment.")
@once("--index", type=click.Choice(_INDEXES), help="This index of the segment instead of its log.")
@once("--topic-id", help="Where the topic was made anew and has segments under several ids.")
@click.option("--layout", type=click.Choice(opt.LAYOUTS), help="Where there are segments in both layouts.")
@once("--segment-id", help="Where several copies hold the offset; the latest is taken otherwise.")
@once("--out", type=LocalPath(dir_okay=False), help="A file, or - for stdout.")
@click.option("--replace", "overwrite", is_flag=True, help="Overwrite the file.")
@opt.s3_options
@opt.apply_option("Write the file of --out.")
def fetch(
    output: Output,
    remote: str,
    topic: str,
    partition: int,
    offset: int,
    index: str | None,
    topic_id: str | None,
    layout: str | None,
    segment_id: str | None,
    out: Path | None,
    overwrite: bool,
    s3: opt.S3Settings,
    apply: bool,
) -> int:
    r"""Fetch the remote segment that holds an offset, or one of its indexes.

    tiersnap restore fetch --remote s3://bucket/tiers --topic orders \
      --partition 0 --offset 300
    tiersnap restore fetch --remote s3://bucket/tiers --topic orders \
      --partition 0 --offset 300 --out segment.log --apply

    Shows which copies there are; `--out FILE --apply` writes a file, `--out -` writes to stdout. Nothing comes out
    that was not checked: of a segment every batch's CRC-32C and the store's own checksum, of an index its form alone.
    """
    from tiersnap.remote_storage.layouts.layout import IndexType
    from tiersnap.remote_storage.restore.find_topic import find_partitions
    from tiersnap.remote_storage.restore.published import read_copies
    from tiersnap.remote_storage.restore.remote_file import RemoteFile, copies_with, latest
    from tiersnap.remote_storage.stores.open_store import open_store
    from tiersnap.snapshot.log.hands_off import refuse_log_dir

    store = open_store(remote, s3, writes=False)
    (listed,) = find_partitions(store, topic, topic_id, [partition], layout)
    copies = copies_with(store, read_copies(store, listed), offset, segment_id)
    file = RemoteFile(store, latest(copies), None if index is None else IndexType(index.upper().replace("-", "_")))
    if out is None or (out != STDOUT and not apply):
        output.rows(FetchedCopy, [_row(copy, is_taken=copy is file.copy) for copy in copies])
        output.talk("nothing was fetched: give --out FILE --apply, or --out - for stdout")
        return ExitCode.OK
    if len(copies) > 1:
        holds = count_of(len(copies), "copy holds", "copies hold")
        output.talk(f"{holds} offset {offset}; taken is the latest, {file.copy.segment_id}")
    if out == STDOUT:
        file.to_stream(sys.stdout.buffer)
        sys.stdout.flush()
        return ExitCode.OK
    refuse_log_dir(out, "--out")
    written = file.to_file(out, replace=overwrite)
    row = replace(_row(file.copy, is_taken=True), bytes=out.stat().st_size, file=str(out))
    output.rows(FetchedCopy, [row], columns=(*FetchedCopy.COLUMNS[:-2], "file"))
    checked = _CHECKED.get(index, "well-formed; not compared with the segment")
    output.talk(checked if written else f"the same content was there already; {checked}")
    return ExitCode.OK


def _row(copy: RemoteSegment, *, is_taken: bool) -> FetchedCopy:
    of = copy.metadata
    return FetchedCopy(
        partition=str(of.id.topic_id_partition),
        topic_id=of.id.topic_id,
        base_offset=copy.start_offset,
        next_base_offset=copy.end_offset,
        bytes=of.segment_size,
        segment_id=copy.segment_id,
        leader_epochs=[list(entry) for entry in of.segment_leader_epochs],
        taken="yes" if is_taken else "",
        key=copy.layout.log_key(of),
    )
