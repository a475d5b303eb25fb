"""Names of the objects of a collected folder."""

from __future__ import annotations

import re
import uuid
from enum import StrEnum

from tiersnap.snapshot.log.log_dir import COLLECTED

MARKER = COLLECTED
LISTING = "listing.parquet"


class Part(StrEnum):
    """A kind of object of a partition; the value is the suffix of its name."""

    SEGMENTS = ".segments.parquet"
    BATCHES = ".batches.parquet"
    SNAPSHOT = ".snapshot"


_PART = re.compile(rf"[0-9]{{20}}-[0-9a-f]{{12}}({'|'.join(re.escape(part) for part in Part)})")


def new_name(offset: int, part: Part) -> str:
    """A name that nobody has given before: two attempts never write one object."""
    return f"{offset:020d}-{uuid.uuid4().hex[:12]}{part}"


def batches_of(name: str) -> str:
    """The object with the headers of the segments whose decodes are in the object `name`."""
    return f"{name.removesuffix(Part.SEGMENTS)}{Part.BATCHES}"


def is_part(name: str) -> bool:
    """Return whether `new_name` made the name."""
    return _PART.fullmatch(name) is not None
