"""Read topic ids from the metadata log of a KRaft cluster, `__cluster_metadata-0`, which every broker replicates.

    <end offset>-<epoch>.checkpoint   the metadata below the end offset, as batches of records; 20 and 10 digits
    <base offset>.log                 the records from the base offset on; 20 digits

The folder `__cluster_metadata-0` is in metadata.log.dir, or in the first entry of log.dirs. Follows
org.apache.kafka.snapshot.Snapshots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tiersnap.snapshot.errors import CorruptRecordError
from tiersnap.snapshot.formats.topic_record import decode_topic_change
from tiersnap.snapshot.log.file_names import numbered_name
from tiersnap.snapshot.log.file_system import Entry, FileSystem
from tiersnap.snapshot.log.log_dir import FileRef, Segment
from tiersnap.snapshot.log.records import LogRecord, SegmentRecords

FOLDER = "__cluster_metadata-0"
_CHECKPOINT = re.compile(r"(?P<offset>[0-9]{20})-[0-9]{10}\.checkpoint")


def read_topic_ids(filesystem: FileSystem, log_dir: str) -> dict[str, str]:
    """Return the ids of topics by topic name; return {} if the metadata log is missing or damaged."""
    ids: dict[str, str] = {}
    try:
        for record in _records(filesystem, f"{log_dir}/{FOLDER}"):
            if record.value is None:
                continue
            change = decode_topic_change(record.value)
            if change is None:
                continue
            if change.name is not None:
                ids[change.name] = change.topic_id
            else:
                ids = {name: each for name, each in ids.items() if each != change.topic_id}
    except (OSError, CorruptRecordError):
        return {}
    return ids


def _records(filesystem: FileSystem, folder: str) -> Iterator[LogRecord]:
    """Yield the records of the newest checkpoint, and the log's records from the checkpoint's offset on."""
    checkpoints, logs = _checkpoints_and_logs(filesystem, folder)
    begin, newest = max(checkpoints, default=(0, None))
    if newest is not None:
        yield from _of_file(filesystem, newest, 0, None)
    ends: list[int | None] = [base for base, _ in logs[1:]]
    for (base, each), end in zip(logs, [*ends, None], strict=False):
        if end is not None and end <= begin:
            continue
        for record in _of_file(filesystem, each, base, end):
            if record.offset >= begin:
                yield record


def _checkpoints_and_logs(
    filesystem: FileSystem, folder: str
) -> tuple[list[tuple[int, Entry]], list[tuple[int, Entry]]]:
    """Return (offset, file) for each checkpoint, and (base offset, file) for each `.log` file."""
    checkpoints: list[tuple[int, Entry]] = []
    logs: list[tuple[int, Entry]] = []
    for each in filesystem.list_folder(folder):
        checkpoint = _CHECKPOINT.fullmatch(each.name)
        if checkpoint:
            checkpoints.append((int(checkpoint["offset"]), each))
            continue
        found = numbered_name(each.name)
        if found and found[0] == "log":
            logs.append((found[1], each))
    return checkpoints, logs


def _of_file(filesystem: FileSystem, entry: Entry, base: int, end: int | None) -> Iterator[LogRecord]:
    segment = Segment(base, end, FileRef(entry.path, entry.size, entry.modified_ns))
    records = SegmentRecords(filesystem, segment)
    yield from records
    for finding in records.findings:
        raise CorruptRecordError(str(finding))
