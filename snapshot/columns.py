"""Annotated types for columns that occur in several tables, so that they have the same width and comment everywhere."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tiersnap.snapshot.rows import Int32

LogDir = Annotated[
    str, Meta(description="log directory, or folder that `tiersnap collect` wrote, as named on the command line")
]
Topic = Annotated[str, Meta(description="name of the topic")]
PartitionNumber = Annotated[Int32, Meta(description="number of the partition")]
TopicId = Annotated[str, Meta(description="topic id, 22 characters; null if it is unknown")]
BaseOffset = Annotated[int, Meta(description="base offset of the segment")]
NextBaseOffset = Annotated[
    int | None, Meta(description="exclusive end: base offset of the next segment; null for the active segment")
]
SizeBytes = Annotated[int, Meta(description="bytes of the segment's log file at the time of the listing")]
ModifiedNs = Annotated[
    int, Meta(description="modification time of the log file at the time of the listing, ns since the epoch")
]
RunNumber = Annotated[int, Meta(description="number of the run that wrote the row, ascending")]
Digest = Annotated[
    str, Meta(description='digest of the headers of all valid batches, 16 hexadecimal digits; "" if no batch was read')
]
CrcChecked = Annotated[bool, Meta(description="whether the CRC of every batch was computed and compared")]
HasGaps = Annotated[
    bool, Meta(description="whether records inside the segment are missing, for example after compaction")
]
