"""`listing.parquet`: one row that says what a collected partition holds, and in which objects.

The row is that of tables.listed.LISTED, as the log directory was listed on its host; its segments and snapshots name
their objects. `decodes` says more of the decodes, for the next collection; while one is under way, they are ahead of
the row. `superseded` are objects that the row no longer names, which who reads by an older listing may still need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.tables.listed import LISTED
from tiersnap.snapshot.tables.schemas import schema_of

Row = dict[str, Any]
VERSION = 3
_VERSION_KEY = b"tiersnap.collected"
_ANEW = "give an empty folder as --to and collect again"
_LONG, _TEXT = pa.int64(), pa.string()

# Remote storage is asked by who reads it.
_OF_READER = (
    "expired_to",
    "encryption",
    "encrypted_by",
    "lacks_beginning",
    "forgotten",
    "leftover_count",
    "error_type",
    "hint",
)
_OF_HOST = [field for field in LISTED if field.name not in _OF_READER]

DECODED = pa.struct(
    [
        ("base_offset", _LONG),
        ("object", _TEXT),  # name of the object with its rows of `segments`
        ("batches", _TEXT),  # likewise of `record_batches`; null where they were not asked for
        # What was decoded.
        ("next_base_offset", _LONG),
        ("size_bytes", _LONG),
        ("modified_ns", _LONG),
        # What a later listing must know of it.
        ("valid_bytes", _LONG),
        ("log_end_offset", _LONG),
        ("run_starts", pa.list_(_LONG)),  # offsets at which its runs begin, ascending
    ]
)
SUPERSEDED = pa.struct([("object", _TEXT), ("since", _LONG)])  # epoch ms
COLLECTED = schema_of(
    *_OF_HOST,
    ("decodes", pa.list_(DECODED)),
    ("superseded", pa.list_(SUPERSEDED)),
    metadata={_VERSION_KEY: str(VERSION).encode()},
)


@dataclass(frozen=True, slots=True)
class Listing:
    """A collected partition.

    Attributes:
        row: of LISTED, with `decode` of its segments and `object` of its snapshots.
        decodes: rows of DECODED by base offset.
        superseded: names of objects, and since when (epoch ms).
    """

    row: Row
    decodes: Mapping[int, Row] = field(default_factory=dict)
    superseded: Mapping[str, int] = field(default_factory=dict)

    @property
    def objects(self) -> frozenset[str]:
        """Names of the objects that it needs."""
        of_decodes = (decode[kind] for decode in self.decodes.values() for kind in ("object", "batches"))
        of_segments = (segment["decode"] for segment in self.row["segments"])
        of_snapshots = (file["object"] for file in self.row["snapshots"])
        return frozenset(name for name in (*of_decodes, *of_segments, *of_snapshots) if name is not None)

    def encode(self) -> bytes:
        """The bytes of a Parquet file."""
        superseded = [{"object": name, "since": since} for name, since in sorted(self.superseded.items())]
        decodes = [decode for _, decode in sorted(self.decodes.items())]
        row = {**self.row, "decodes": decodes, "superseded": superseded}
        sink = pa.BufferOutputStream()
        table = pa.Table.from_pylist([row], schema=COLLECTED)
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        return bytes(sink.getvalue())

    @classmethod
    def decode(cls, data: bytes, *, name: str) -> Listing:
        """The inverse of `encode`.

        Raises:
            UsageError: another version of tiersnap wrote it.
            CorruptDataError: it is no such file.
        """
        try:
            table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
            version = int((table.schema.metadata or {})[_VERSION_KEY])
            if version > VERSION:
                raise UsageError(f"{name}: version {version} of a newer tiersnap", hint="upgrade tiersnap")
            if version < VERSION:
                raise UsageError(f"{name}: version {version} of an earlier tiersnap", hint=_ANEW)
            (row,) = table.select(COLLECTED.names).to_pylist()
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise CorruptDataError(
                f"{name}: not what tiersnap collect writes: {str(error).splitlines()[0]}",
                hint=_ANEW,
            ) from error
        decodes = {decode["base_offset"]: decode for decode in row.pop("decodes")}
        superseded = {each["object"]: each["since"] for each in row.pop("superseded")}
        return cls({**row, **dict.fromkeys(_OF_READER)}, decodes, superseded)


def is_as_decoded(segment: Mapping[str, Any], decode: Mapping[str, Any]) -> bool:
    """Return whether a decode is still right for a listed segment (a row of SEGMENT_FILES).

    The file is the same, a state is wanted at no new offset inside it, and it is followed as it was, or was sound when
    it was rolled: what is normal at the end of the active segment is damage in a closed one. The fleet's run asks the
    same of its tables (jobs.pipeline.changes).
    """
    following = segment["next_base_offset"]
    is_whole = decode["valid_bytes"] == decode["size_bytes"] > 0
    ends_well = following == decode["next_base_offset"] or (
        decode["next_base_offset"] is None and is_whole and decode["log_end_offset"] <= following
    )
    reached = (cut for cut in segment["cuts"] if following is not None or cut <= decode["log_end_offset"])
    same_file = all(segment[name] == decode[name] for name in ("size_bytes", "modified_ns"))
    return same_file and ends_well and set(reached) <= set(decode["run_starts"])
