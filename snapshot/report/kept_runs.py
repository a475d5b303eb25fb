"""Runs that a report's folder keeps, read back."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from pathlib import Path

from tiersnap.snapshot.errors import SourceNotFoundError
from tiersnap.snapshot.regular_file import read_regular, read_text
from tiersnap.snapshot.report import run_head
from tiersnap.snapshot.report.beside import run_file
from tiersnap.snapshot.report.changes import PartitionKey, PartitionState, states_of_json
from tiersnap.snapshot.report.run_head import RunHead

_log = logging.getLogger(__name__)


def read_heads(folder: Path) -> tuple[RunHead, ...]:
    """The index of runs; empty where there is none, or none that can be read, which is logged."""
    try:
        return run_head.from_text(read_text(folder / "runs.json", follow=True))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        _log.warning("%s: cannot be read (%s): the index of runs begins anew", folder / "runs.json", error)
        return ()


def read_states(folder: Path, run_id: str) -> dict[PartitionKey, PartitionState] | None:
    """Where every partition stood in a run; None where that is not kept, or cannot be read."""
    try:
        return states_of_file(folder / "runs" / f"{run_file(run_id)}.json.gz")
    except (OSError, ValueError, EOFError, zlib.error):
        return None


def states_of_run(folder: Path, run: str) -> dict[PartitionKey, PartitionState]:
    """The same for a person's word: the id of a run in the folder, or a path of a readiness.json or of its folder.

    Raises:
        SourceNotFoundError: there is neither, or what is there is no readiness.json of this version.
    """
    kept = folder / "runs" / f"{run_file(run)}.json.gz"
    path = kept if kept.is_file() else Path(run)
    try:
        return states_of_file(path / "readiness.json" if path.is_dir() else path)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        known = ", ".join(head.run_id for head in read_heads(folder)[-5:])
        raise SourceNotFoundError(
            f"{run}: no run of {folder}, and no readiness.json ({getattr(error, 'strerror', None) or error})",
            hint=f"its newest runs are {known}" if known else "--in names the folder that a report was written to",
        ) from error


def states_of_file(path: Path) -> dict[PartitionKey, PartitionState]:
    """Where every partition stood, by a readiness.json or a packed one.

    Raises:
        OSError, ValueError, EOFError, zlib.error: it cannot be read, or is something else.
    """
    data = read_regular(path, follow=True)
    try:
        found = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return states_of_json(found)
