"""`tiersnap fetch`: one segment, or one of its indexes, out of remote storage into a file or a pipe, verified."""

from __future__ import annotations

from pathlib import Path

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.fetch import FetchRequest, fetch_options
from tiersnap.jobs.old_options.once import once
from tiersnap.jobs.old_options.paths import LocalPath
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.fetch import show_copies, show_file, write_to_stdout
from tiersnap.remote_storage.restore.published import read_copies
from tiersnap.remote_storage.restore.remote_file import RemoteFile, copies_with, latest
from tiersnap.remote_storage.restore.topic import find_in_layout
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.hands_off import refuse_log_dir
from tiersnap.snapshot.units import count_of

STDOUT = Path("-")


@click.command()
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@fetch_options
@once("--out", type=LocalPath(dir_okay=False), help="A file, or - for stdout.")
@click.option("--replace", is_flag=True, help="Overwrite the file.")
@s3_options
@click.option("--apply", is_flag=True, help="Write the file of --out.")
@params.output_option
@click.pass_obj
def fetch(
    output: Output, remote: str, asked: FetchRequest, out: Path | None, replace: bool, s3: S3Settings, apply: bool
) -> int:
    """Fetch the remote segment that holds an offset, or one of its indexes.

    Shows which copies there are; `--out FILE --apply` writes a file, `--out -` writes to stdout. Nothing comes out
    that was not checked: of a segment every batch's CRC-32C and the store's own checksum, of an index its form alone.
    """
    store = open_store(remote, s3, writes=False)
    (listed,) = find_in_layout(store, asked.topic, asked.topic_id, [asked.partition], asked.layout)
    copies = copies_with(store, read_copies(store, listed), asked.offset, asked.segment_id)
    file = RemoteFile(store, latest(copies), asked.index_type)
    if out is None or (out != STDOUT and not apply):
        show_copies(output, copies, file.copy)
        return ExitCode.OK
    if len(copies) > 1:
        output.talk(
            f"{count_of(len(copies), 'copy holds', 'copies hold')} offset {asked.offset}; "
            f"taken is the latest, {file.copy.segment_id}"
        )
    if out == STDOUT:
        write_to_stdout(file)
        return ExitCode.OK
    refuse_log_dir(out, "--out")
    written = file.to_file(out, replace=replace)
    show_file(output, file, out, written=written)
    return ExitCode.OK
