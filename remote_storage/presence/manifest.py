"""What an rsm-manifest says, taken from a stranger: bounded in size and depth, every number checked.

A manifest of a segment that the plugin compressed or encrypted is read as well: the copy is there, whoever can read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.rsm_manifest import NAMES
from tiersnap.remote_storage.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tiersnap.snapshot.errors import CorruptDataError

LARGEST_MANIFEST = 1 << 20  # bytes
_INT = (1 << 31) - 1
_LONG = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says of its segment.

    Attributes:
        metadata: as COPY_SEGMENT_FINISHED.
        log_size: bytes of the log object, None where only the plugin can tell (compressed chunks).
        places: position and size of each index in the indexes object; None for no transaction index.
        is_verbatim: nothing is compressed or encrypted.
    """

    metadata: RemoteLogSegmentMetadata
    log_size: int | None
    places: Mapping[IndexType, tuple[int, int] | None]
    is_verbatim: bool

    @property
    def indexes_size(self) -> int:
        """Bytes of the indexes object."""
        return max((place[0] + place[1] for place in self.places.values() if place), default=0)


def read_manifest(data: bytes, *, name: str) -> Manifest:
    """A manifest of ours or of the plugin.

    Raises:
        CorruptDataError: not such a manifest, or its numbers cannot be.
    """
    try:
        if len(data) > LARGEST_MANIFEST:
            raise ValueError(f"{len(data)} bytes")  # noqa: TRY301
        found = _object(json.loads(data, parse_constant=_refuse))
        chunks = _object(found["chunkIndex"])
        size = _integer(chunks["originalFileSize"], 1, _INT)
        places = {index: _place(_object(found["segmentIndexes"])[NAMES[index]], index) for index in IndexType}
        metadata = _metadata(_object(found["remoteLogSegmentMetadata"]), size)
        is_verbatim = found["compression"] is False and found.get("encryption") is None
        return Manifest(metadata, _log_size(chunks, size), places, is_verbatim)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidKeyError) as error:
        raise CorruptDataError(
            f"{name}: not a manifest of a segment: {str(error)[:200] or type(error).__name__}",
            hint="the copy is not used; look at the object, and copy the segment again if the broker has it still",
        ) from error


def _metadata(found: dict[str, Any], size: int) -> RemoteLogSegmentMetadata:
    named = _object(found["remoteLogSegmentId"])
    partition = _object(named["topicIdPartition"])
    at = _object(partition["topicPartition"])
    start = _integer(found["startOffset"], 0, _LONG - 1)
    end = _integer(found["endOffset"], start, _LONG - 1)
    epochs = sorted(
        (_integer(int(epoch), 0, _INT), _integer(first, start, end))
        for epoch, first in _object(found["segmentLeaderEpochs"]).items()
        if len(epoch) <= 10 or _refuse(epoch)
    )
    if not epochs or any(after[1] < before[1] for before, after in pairwise(epochs)):
        raise ValueError(f"leader epochs {epochs[:4]} of a segment from {start} on")
    return RemoteLogSegmentMetadata(
        id=RemoteLogSegmentId(
            _text(at["topic"]), _text(partition["topicId"]), _integer(at["partition"], 0, _INT), _text(named["id"])
        ),
        start_offset=start,
        end_offset=end,
        broker_id=_integer(found["brokerId"], -1, _INT),
        max_timestamp=_integer(found["maxTimestampMs"], -_LONG - 1, _LONG),
        event_timestamp=_integer(found["eventTimestampMs"], -_LONG - 1, _LONG),
        segment_leader_epochs=tuple(epochs),
        segment_size=size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )


def _log_size(chunks: dict[str, Any], size: int) -> int | None:
    """Bytes of the log object, by its chunks; the same as of the log where nothing was done to them."""
    if chunks["type"] != "fixed":
        return None
    original = _integer(chunks["originalChunkSize"], 1, _INT)
    transformed = _integer(chunks["transformedChunkSize"], 1, _INT)
    last = _integer(chunks["finalTransformedChunkSize"], 1, transformed)
    return (-(-size // original) - 1) * transformed + last


def _place(found: object, index: IndexType) -> tuple[int, int] | None:
    if found is None and index is IndexType.TRANSACTION:
        return None
    place = _object(found)
    return _integer(place["position"], 0, _INT), _integer(place["size"], 0, _INT)


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:80]!r} is no object")
    return value


def _integer(value: object, lowest: int, highest: int) -> int:
    if type(value) is not int or not lowest <= value <= highest:  # True is an int
        raise ValueError(f"{str(value)[:80]!r} is no number from {lowest} to {highest}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:80]!r} is no text")
    return value


def _refuse(text: str) -> bool:
    raise ValueError(f"{text[:40]} is no number of a manifest")
