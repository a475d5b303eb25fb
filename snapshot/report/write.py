"""Functions that write a report's folder. After a crash, each file is complete: either the old or the new one.

    index.html               blocked segments, and the changes since the previous run
    lost.html                lost and duplicate records
    failover.html            the effect of a failure of this broker
    runs.html, runs.json     the index of runs
    readiness.json, .csv     the newest run as data
    details/*.js             partitions that index.html loads on demand
    runs/<run id>.html       a short page of each run
    runs/<run id>.json.gz    readiness.json of each run, for comparisons

The folder `runs` has all earlier runs. They are never deleted.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from tiersnap.snapshot.atomic_file import FULL, cannot_write
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir
from tiersnap.snapshot.report.exactly_once import ExactlyOnce
from tiersnap.snapshot.report.files import csv_chunks, json_chunks
from tiersnap.snapshot.report.html_page import detail_files, failover_html, lost_html, runs_html, to_html, to_kept_html
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_history import Beside, index_of, run_file

_log = logging.getLogger(__name__)

_DETAIL = re.compile(r"(?:[0-9]+|partitions|topics)(?:-[0-9]+)?\.js")


def contents(report: Report, beside: Beside, known: ExactlyOnce, folder: Path) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield (name, pieces of the text) for each file. index.html is the last one, because it links to the others."""
    kept = f"runs/{run_file(report.run.run_id)}"
    for name, text in detail_files(report):
        yield name, (text,)
    yield "readiness.json", json_chunks(report)
    yield "readiness.csv", csv_chunks(report)
    yield f"{kept}.json.gz", json_chunks(report)
    yield f"{kept}.html", (to_kept_html(report, beside),)
    yield "runs.json", (index_of(beside.runs).decode(),)
    yield "runs.html", (runs_html(report, beside),)
    yield "lost.html", (lost_html(report, known),)
    yield "failover.html", (failover_html(report, known, str(folder.absolute())),)
    yield "index.html", (to_html(report, beside),)


def write_report(report: Report, destination: Path | str, known: ExactlyOnce | None = None) -> tuple[Path, ...]:
    """Write the files (UTF-8) into a folder. Create the folder if needed. Return the paths, index.html last.

    The same report gives the same bytes. Each file is written under a temporary name and renamed, so readers see only
    complete files. Finally, details of earlier runs are deleted. Other files in the folder are not changed.

    Args:
        known: data of lost.html and failover.html. Without it, these pages print the command that provides the data.

    Raises:
        NoSpaceError: the disk is full.
        UsageError: the folder cannot be written, or is a log directory of a broker.
    """
    folder = Path(destination)
    for place in (folder, folder / "details", folder / "runs"):
        refuse_log_dir(place, "the report's folder")
    try:
        for name in ("details", "runs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        pages = contents(report, Beside.of(report, folder), known or ExactlyOnce(), folder)
        written = tuple(_replace(folder / name, chunks) for name, chunks in pages)
        wanted = set(written)
        for path in (folder / "details").iterdir():
            if _DETAIL.fullmatch(path.name) and path not in wanted:
                path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise cannot_write(folder, error) from error
        raise UsageError(
            f"cannot write the report to {folder}: {error}", hint="give a folder that this user may write to"
        ) from error
    return written


def _replace(path: Path, chunks: Iterable[str]) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            if path.suffix == ".gz":
                # No timestamp, so that the same text gives the same bytes.
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                    packed.writelines(map(str.encode, chunks))
            else:
                file.writelines(map(str.encode, chunks))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _log.debug("wrote %s", path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
