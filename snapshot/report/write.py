"""Write the report's folder; a crash leaves each file complete, old or new.

    index.html               the stuck segments, and the changes since the previous run
    lost.html                lost and duplicate records
    failover.html            the failover if this broker dies now
    runs.html, runs.json     the index of runs
    readiness.json, .csv     the newest run as data
    details/*.js             partitions that index.html loads when they are opened
    runs/<run id>.html       a short page of each run
    runs/<run id>.json.gz    its readiness.json, for comparisons

The earlier runs are the runs in this folder. They are never deleted.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

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
    """Yield (file name, its text in pieces). The page comes last, because it links to the other files."""
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
    """Write the files, UTF-8, into a folder, which is created if needed; return their paths, index.html last.

    The same report gives the same bytes. Each file is written under another name and renamed, so no reader sees half of
    it. At the end the details of earlier runs are deleted. Other files of the folder stay.

    Args:
        known: the data of lost.html and failover.html; without it these pages show how to get it.

    Raises:
        UsageError: the folder cannot be created or written, or it is a broker's.
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
        raise UsageError(
            f"cannot write the report to {folder}: {error}", hint="give a folder that can be written"
        ) from error
    return written


def _replace(path: Path, chunks: Iterable[str]) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            if path.suffix == ".gz":
                # Without a timestamp, so that the same text gives the same bytes.
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                    packed.writelines(chunk.encode() for chunk in chunks)
            else:
                file.writelines(chunk.encode() for chunk in chunks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _log.debug("wrote %s", path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
