"""The report's folder: index.html, readiness.json and readiness.csv, each complete or as it was before."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.hands_off import refuse_log_dir
from tiersnap.snapshot.report.files import csv_chunks, json_chunks
from tiersnap.snapshot.report.html_page import to_html
from tiersnap.snapshot.report.model import Report


def contents(report: Report) -> Iterator[tuple[str, Iterable[str]]]:
    """(file name, its text in pieces), the page last: who sees it finds what it points to."""
    yield "readiness.json", json_chunks(report)
    yield "readiness.csv", csv_chunks(report)
    yield "index.html", (to_html(report),)


def write_report(report: Report, destination: Path | str) -> tuple[Path, ...]:
    """Write the three files, UTF-8, into a folder, which is made if need be; returns their paths.

    The same report gives the same bytes. A file is written beside its place and renamed, so a reader, or a crash,
    never meets half of one. Other files of the folder are left alone.

    Raises:
        UsageError: the folder cannot be made or written, or is a broker's.
    """
    folder = Path(destination)
    refuse_log_dir(folder, "the report's folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_replace(folder / name, chunks) for name, chunks in contents(report))
    except OSError as error:
        raise UsageError(
            f"cannot write the report to {folder}: {error}", hint="give a folder that can be written"
        ) from error


def _replace(path: Path, chunks: Iterable[str]) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
