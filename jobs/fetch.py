"""`tiersnap fetch`: one segment, or one of its indexes, out of remote storage into a file or a pipe, verified."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import click
from pyarrow import fs

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.once import LAYOUTS, once
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.presence.copies import RemoteCopy
from tiersnap.remote_storage.restore.files import fetch_log
from tiersnap.remote_storage.restore.own_folder import PART
from tiersnap.remote_storage.restore.plan import find_partitions
from tiersnap.remote_storage.restore.remote_copies import (
    RemotePartition,
    read_copies,
    read_indexes,
    read_lineage,
)
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.atomic_file import cannot_write, sync_directory, write_atomically
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, ObjectExistsError, UsageError
from tiersnap.snapshot.formats import indexes, snapshot_file, transaction_index
from tiersnap.snapshot.log.hands_off import refuse_log_dir
from tiersnap.snapshot.log.segment_scan import SegmentScan

INDEXES = {str(index).lower().replace("_", "-"): index for index in IndexType}
STDOUT = Path("-")


@click.command()
@click.option("--from", "remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@once("--topic", required=True, help="The topic's name.")
@once("--partition", required=True, type=int)
@once("--offset", required=True, type=int, help="An offset in the segment.")
@once("--index", type=click.Choice(list(INDEXES)), help="This index of the segment instead of its log.")
@once("--topic-id", help="Where the topic was made anew and has segments under several ids.")
@click.option("--layout", type=click.Choice(LAYOUTS), help="Where there are segments in both layouts.")
@once("--segment-id", help="Where several copies hold the offset; the latest is taken otherwise.")
@once("--out", type=LocalPath(dir_okay=False), help="A file, or - for stdout.")
@click.option("--replace", is_flag=True, help="Overwrite the file.")
@s3_options
@click.option("--apply", is_flag=True, help="Write the file of --out.")
@params.output_option
@click.pass_obj
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
    replace: bool,
    s3: S3Settings,
    apply: bool,
) -> int:
    """Fetch the remote segment that holds an offset, or one of its indexes.

    Shows which copies there are; `--out FILE --apply` writes a file, `--out -` writes to stdout. Nothing comes out
    that was not verified: every batch's CRC-32C and the store's own checksum, the form of an index.
    """
    store = open_store(remote, s3)
    local = None if layout is None else layout == "local-tiered-storage"
    (listed,) = find_partitions(store, topic, topic_id=topic_id, partitions=[partition], local=local)
    copies = _holding(store, read_copies(store, listed), offset, segment_id)
    chosen = max(copies, key=_attempt)
    if out is None or (out != STDOUT and not apply):
        columns = ("partition", "base_offset", "next_base_offset", "bytes", "segment_id", "taken", "key")
        output.rows("fetch", [_row(copy, chosen) for copy in copies], columns=columns)
        output.talk("nothing was fetched: give --out FILE --apply, or --out - for stdout")
        return ExitCode.OK
    if len(copies) > 1:
        output.talk(f"{len(copies)} copies hold offset {offset}; taken is the latest, {chosen.segment_id}")
    kind = None if index is None else INDEXES[index]
    if out == STDOUT:
        _to_stdout(store, chosen, kind)
        return ExitCode.OK
    refuse_log_dir(out, "--out")
    written = _to_file(store, chosen, kind, out, replace=replace)
    row = {**_row(chosen, chosen), "bytes": out.stat().st_size, "file": str(out)}
    output.rows("fetch", [row], columns=("partition", "base_offset", "next_base_offset", "bytes", "segment_id", "file"))
    output.talk("verified" if written else "the same content was there already")
    return ExitCode.OK


def _holding(store: ObjectStore, remote: RemotePartition, offset: int, segment_id: str | None) -> list[RemoteCopy]:
    copies = [copy for copy in remote.copies if copy.start_offset <= offset < copy.end_offset]
    copies = [copy for copy in copies if segment_id in (None, copy.segment_id)]
    if copies:
        return copies
    near = [each.problem for each in remote.unusable if each.start_offset <= offset][-1:]
    raise ObjectNotFoundError(
        f"{store.uri}: no complete segment of {remote.partition} holds offset {offset}"
        + "".join(f": {x}" for x in near),
        hint="tiersnap restore --segments, without --apply, lists what there is",
    )


def _attempt(copy: RemoteCopy) -> tuple[int, int, str]:
    metadata = copy.metadata
    return metadata.segment_leader_epochs[-1][0], metadata.event_timestamp, copy.segment_id


def _row(copy: RemoteCopy, chosen: RemoteCopy) -> dict[str, object]:
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


def _to_stdout(store: ObjectStore, copy: RemoteCopy, index: IndexType | None) -> None:
    stdout = sys.stdout.buffer
    if index is not None:
        stdout.write(verified_index(store, copy, index))
        return
    with tempfile.TemporaryDirectory(prefix="tiersnap-") as scratch:
        path = Path(scratch) / f"{copy.start_offset:020d}.log"
        _fetch_verified(store, copy, path)
        with path.open("rb") as file:
            shutil.copyfileobj(file, stdout)


def _to_file(store: ObjectStore, copy: RemoteCopy, index: IndexType | None, path: Path, *, replace: bool) -> bool:
    """Write the file; False when it was there with the same content."""
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: no such directory")
    if index is not None:
        data = verified_index(store, copy, index)
        if path.exists() and path.read_bytes() == data:
            return False
        if not write_atomically(path, data, replace=replace):
            raise _there(path)
        return True
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
    try:
        _fetch_verified(store, copy, part)
        if path.exists() and not replace:
            if _same(path, part):
                return False
            raise _there(path)
        part.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        part.unlink(missing_ok=True)
    return True


def _there(path: Path) -> ObjectExistsError:
    return ObjectExistsError(f"{path} is there with other content", hint="give another name, or --replace")


def _same(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while data := left.read(1 << 20):
            if data != right.read(1 << 20):
                return False
    return True


def _fetch_verified(store: ObjectStore, copy: RemoteCopy, path: Path) -> None:
    with path.open("xb") as file:
        fetch_log(store, copy, file)
        file.flush()
        os.fsync(file.fileno())
    scan = SegmentScan(
        fs.LocalFileSystem(),
        str(path),
        base_offset=copy.start_offset,
        next_base_offset=copy.end_offset,
        keep_rows=False,
    )
    for _ in scan:
        pass
    if scan.end.finding is not None:
        path.unlink()
        finding = scan.end.finding
        raise CorruptDataError(
            f"{store.uri}{copy.layout.log_key(copy.metadata)}: {finding.kind} at byte {max(finding.position, 0)}: "
            f"{finding.message}",
            hint="another copy, if there is one: --segment-id ID",
        )


def verified_index(store: ObjectStore, copy: RemoteCopy, index: IndexType) -> bytes:
    """Bytes of one index of a copy, in the form that they must have.

    Raises:
        ObjectNotFoundError: a transaction index, of a segment that has none.
        CorruptDataError: the bytes are not such an index.
    """
    data = read_indexes(store, copy)[index]
    name = f"{store.uri}{copy.layout.log_key(copy.metadata)}: {index}"
    if data is None:
        raise ObjectNotFoundError(f"{name}: the segment has none: no transaction was aborted in it")
    if index is IndexType.OFFSET:
        indexes.decode_offset_index(data, base_offset=copy.start_offset, name=name)
    elif index is IndexType.TIMESTAMP:
        indexes.decode_time_index(data, base_offset=copy.start_offset, name=name)
    elif index is IndexType.TRANSACTION:
        transaction_index.decode(data, base_offset=copy.start_offset, name=name)
    elif index is IndexType.PRODUCER_SNAPSHOT:
        snapshot_file.decode(data, name=name)
    else:
        read_lineage(store, copy)
    return data
