"""Output forms of a dump: Kafka's text, table, JSON Lines and JSON. All of them are streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from tiersnap.snapshot.dump import kafka_text
from tiersnap.snapshot.dump.columns import TextTable, json_objects
from tiersnap.snapshot.dump.contents import Contents, Options, Text
from tiersnap.snapshot.dump.files import FileKind, StorageFile
from tiersnap.snapshot.dump.index_contents import (
    OffsetIndexContents,
    SnapshotContents,
    TextContents,
    TimeIndexContents,
    TransactionIndexContents,
)
from tiersnap.snapshot.dump.log_contents import LogContents

SCHEMA_VERSION = 1
# TextContents reads all other kinds.
_CONTENTS: dict[FileKind, Callable[[StorageFile, Options], Contents]] = {
    FileKind.LOG: LogContents,
    FileKind.KRAFT_SNAPSHOT: LogContents,
    FileKind.PRODUCER_SNAPSHOT: SnapshotContents,
    FileKind.OFFSET_INDEX: OffsetIndexContents,
    FileKind.TIME_INDEX: TimeIndexContents,
    FileKind.TRANSACTION_INDEX: TransactionIndexContents,
}


def open_contents(file: StorageFile, options: Options) -> Contents:
    """Return the reader for the kind of a file."""
    return _CONTENTS.get(file.kind, TextContents)(file, options)


def as_kafka(contents: Contents) -> Iterator[Text]:
    """Yield the output of kafka-dump-log for one file."""
    yield f"Dumping {kafka_text.java_path(contents.file.path)}\n".encode("utf-8", "surrogateescape")
    yield from contents.kafka_text()


def as_table(contents: Contents) -> Iterator[Text]:
    """Yield a header line, and a line per entry."""
    table = TextTable()
    header = b""
    for columns in contents.columns():
        if not header:
            header = (table.header(columns) + "\n").encode()
            yield header
        yield table.rows(columns)


def as_jsonl(contents: Contents) -> Iterator[Text]:
    """Yield a JSON object per entry, one per line. Its first members are `file` and `kind`."""
    file = contents.file
    prefix = f'"file": {json.dumps(file.path)}, "kind": {json.dumps(file.kind)}, '
    for columns in contents.columns():
        yield json_objects(columns, prefix=prefix)


def as_json(every: Iterable[Contents]) -> Iterator[Text]:
    """Yield one JSON document. Its `result` has an object per file, with entries and damage."""
    yield f'{{"schema_version": {SCHEMA_VERSION}, "command": "dump", "result": ['.encode()
    for number, contents in enumerate(every):
        file = contents.file
        head = {"file": file.path, "kind": file.kind, "offset": file.offset, "epoch": file.epoch}
        if number:
            yield b","
        yield b"\n" + json.dumps(head)[:-1].encode() + b', "entries": [\n'
        is_first = True
        for columns in contents.columns():
            if columns[0].values.size:
                yield b"" if is_first else b",\n"
                is_first = False
                # A comma follows every object except the last.
                yield json_objects(columns, suffix=",\n")[:-2]
        judgement = contents.judgement
        damage = [item.as_dict() for item in judgement.damage]
        tail = {"damage": damage, "further_damage": judgement.further, "notes": judgement.notes}
        yield b"\n], " + json.dumps(tail, default=str)[1:].encode()
    yield b'\n], "errors": []}\n'
