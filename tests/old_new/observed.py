"""What a side left: files and objects by name, rows of tables, as text that can be compared line by line."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.old_new.normal import Ids, text

_TEXTS = {".json", ".jsonl", ".csv", ".html", ".prom", ".js", ".rsm-manifest", ".txt", ".properties", ".gz", ""}
_SHOWN = 400  # characters of a text that differs; the rest is in the workspace


def of_folder(folder: Path, paths: dict[str, str], ids: Ids) -> Iterator[tuple[str, str]]:
    """Name and content of each file below a folder, ascending by name; tables as their rows.

    A text has what differs between runs replaced, other bytes are a digest.
    """
    tables = {path.parent for path in folder.rglob("_delta_log")}
    for table in sorted(tables):
        yield from _rows(table, folder, paths, ids)
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or any(table in path.parents for table in tables):
            continue
        if path.name.endswith(".parquet.crc"):  # Hadoop's, of the file beside it, whose rows are compared
            continue
        name = text(str(path.relative_to(folder)), {}, ids)
        yield name, _content(path, paths, ids)


def _content(path: Path, paths: dict[str, str], ids: Ids) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
        return text("\n".join(json.dumps(row, default=str, sort_keys=True) for row in rows), paths, ids)
    if path.suffix in _TEXTS:
        try:
            return text(data.decode("utf-8"), paths, ids)
        except UnicodeDecodeError:
            pass
    return f"{len(data)} bytes, blake2b {hashlib.blake2b(data, digest_size=12).hexdigest()}"


def _rows(table: Path, folder: Path, paths: dict[str, str], ids: Ids) -> Iterator[tuple[str, str]]:
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    lines = sorted(text(json.dumps(row, default=str, sort_keys=True), paths, ids) for row in rows)
    yield f"{table.relative_to(folder)}/", "\n".join(lines)


def differences(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    """What one side has and the other has not, or has otherwise."""
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{name}: only in the old one"
        elif name not in old:
            yield f"{name}: only in the new one"
        elif old[name] != new[name]:
            yield f"{name}: {_first_difference(old[name], new[name])}"


def _first_difference(old: str, new: str) -> str:
    before, after = old.splitlines() or [""], new.splitlines() or [""]
    pairs = zip(before, after, strict=False)
    number = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))
    one, other = ("".join(lines[number : number + 1])[:_SHOWN] for lines in (before, after))
    return f"line {number + 1} of {len(before)} and {len(after)}: {one!r} -> {other!r}"
