"""What `fetch` shows: the copies that hold an offset, or the one that was fetched."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tiersnap.jobs.output import Output
from tiersnap.remote_storage.inventory.remote_segment import RemoteSegment
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.restore.remote_file import RemoteFile
from tiersnap.snapshot.atomic_file import cannot_write

_ABOUT = ("partition", "base_offset", "next_base_offset", "bytes", "segment_id")


def show_copies(output: Output, copies: Sequence[RemoteSegment], chosen: RemoteSegment) -> None:
    """What there is; nothing was fetched."""
    output.row_dicts("fetch", [_row(copy, chosen) for copy in copies], columns=(*_ABOUT, "taken", "key"))
    output.talk("nothing was fetched: give --out FILE --apply, or --out - for stdout")


def write_to_stdout(file: RemoteFile) -> None:
    """The bytes, and nothing else.

    Raises:
        TransientError, UsageError: stdout is a file that cannot be written; a pipe that was closed stays what it is.
    """
    try:
        file.to_stream(sys.stdout.buffer)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise cannot_write(Path("stdout"), error) from error


_CHECKED = {
    None: "verified: the CRC-32C of every batch",
    IndexType.LEADER_EPOCH: "verified: the leader epochs that the segment's metadata tells",
    IndexType.PRODUCER_SNAPSHOT: "well-formed; not compared with the log: tiersnap verify LOGDIR --remote "
    "s3://bucket/prefix compares what brokers have",
}


def show_file(output: Output, file: RemoteFile, path: Path, *, written: bool) -> None:
    """The file that holds it now, and what was checked of it."""
    copy = file.copy
    row = {**_row(copy, copy), "bytes": path.stat().st_size, "file": str(path)}
    output.row_dicts("fetch", [row], columns=(*_ABOUT, "file"))
    checked = _CHECKED.get(file.index, "well-formed; not compared with the segment")
    output.talk(checked if written else f"the same content was there already; {checked}")


def _row(copy: RemoteSegment, chosen: RemoteSegment) -> dict[str, object]:
    metadata = copy.metadata
    return {
        "partition": str(metadata.id.topic_id_partition),
        "topic_id": metadata.id.topic_id,
        "base_offset": copy.start_offset,
        "next_base_offset": copy.end_offset,
        "bytes": metadata.segment_size,
        "segment_id": copy.segment_id,
        "leader_epochs": [list(entry) for entry in metadata.segment_leader_epochs],
        "taken": "yes" if copy is chosen else "",
        "key": copy.layout.log_key(metadata),
    }
