"""Files whose dump by Kafka's own tool is kept in tests/golden/dump-log-4.1.1, real ones and made ones."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from tests.reference import log_builder as lb

TESTS = Path(__file__).parent.parent
DATA = TESTS / "data"
GOLDEN = TESTS / "golden/dump-log-4.1.1"

_REAL = {
    "kafka-2.7.2/logs/payments-0/00000000000000000263": ("log", "index", "timeindex", "txnindex", "snapshot"),
    "kafka-2.7.2/logs/magic0-0/00000000000000000242": ("log", "index", "timeindex"),
    "kafka-2.7.2/logs/magic1-0/00000000000000000370": ("log", "index", "timeindex"),
    "kafka-2.7.2/logs/compacted-0/00000000000000001208": ("log", "index", "timeindex", "snapshot"),
    "kafka-2.7.2/logs/hanging-0/00000000000000001205": ("snapshot",),
    "ledger-2.7.2/logs/ledger-0/00000000000000001102": ("log", "index", "timeindex", "snapshot"),
    "kafka-3.9.1/logs/fenced-0/00000000000000000257": ("log", "index", "timeindex", "txnindex", "snapshot"),
    "kafka-4.1.1/logs/tv2-0/00000000000000001379": ("index", "timeindex", "txnindex", "snapshot"),
    "kafka-4.1.1/logs/__consumer_offsets-0/00000000000000000000": ("log", "index", "timeindex"),
    "kafka-4.1.1/logs/bootstrap": ("checkpoint",),
}
REAL = tuple(f"{stem}.{suffix}" for stem, suffixes in _REAL.items() for suffix in suffixes)


@dataclass(frozen=True)
class Made:
    """A made file.

    Attributes:
        files: bytes by file name; the first one is dumped, the others lie beside it.
        flags: of kafka-dump-log, and of `tiersnap dump` alike.
        is_damaged: whether tiersnap exits with 5.
    """

    files: dict[str, bytes]
    flags: tuple[str, ...] = ()
    is_damaged: bool = False

    def write(self, folder: Path) -> str:
        """Write the files; gives the name of the one to dump."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        return next(iter(self.files))


LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = (
    f"00000000000000000100.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")
)
EVERY_KIND = [
    lb.legacy_entry(100, 0, key=b"k"),
    lb.legacy_entry(101, 1),
    lb.legacy_entry(102, 1, value=None, attributes=8 | 3),
    lb.data_batch(103, 3, 7, 0, 0, transactional=True),
    lb.marker(106, 7, 0, 3, commit=True, leader_epoch=2),
    lb.marker(107, 7, 1, 3, commit=False),
    *(lb.data_batch(108 + codec, 1, 8, 0, codec, codec=codec) for codec in range(5)),
    lb.data_batch(113, 2, log_append_time=True),
    lb.empty_batch(115, 3, 9, 2, 5),
    lb.empty_batch(118, 1, 9, 2, transactional=True, control=True, delete_horizon=lb.TIMESTAMP + 9),
    lb.empty_batch(119, 1, 9, 2, 8, delete_horizon=-1),
    lb.leader_change(120),
    lb.data_batch(121, 4, 10, 0, 2147483646),
    lb.data_batch(125, 1, 2**62, 32767, 2147483647, timestamp=-1),
]
SEGMENT = b"".join(EVERY_KIND)
_FIRST, _SECOND, _THIRD = lb.data_batch(100, 2, 7, 0, 0), lb.data_batch(102, 2, 7, 0, 2), lb.marker(104, 7, 0, 0, True)
_THREE = _FIRST + _SECOND + _THIRD


def _changed(data: bytes, position: int, value: bytes) -> bytes:
    return data[:position] + value + data[position + len(value) :]


def _snapshot(*entries: tuple[int, ...]) -> bytes:
    counted = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, google_crc32c.value(counted)) + counted


_SNAPSHOT = _snapshot(
    (4000, 2, 9, 109, 4, lb.TIMESTAMP, 3, 100),
    (11, 12, -1, -1, 0, lb.TIMESTAMP + 123, -1, -1),
    (1, 0, 1, 90, 3, lb.TIMESTAMP, -1, -1),
    (2, 0, 5, 0, 5, -1, 2147483647, 0),
)
_ABORTED = struct.pack(">hqqqq", 0, 7, 100, 110, 111)
_LARGE = [lb.data_batch(100 + i, 1, payload=bytes(3000)) for i in range(6)]
_INDEX = struct.pack(">iiii", 2, 2 * len(_LARGE[0]), 4, 4 * len(_LARGE[0]))
_TIMES = struct.pack(">qiqi", lb.TIMESTAMP, 2, lb.TIMESTAMP + 1, 5)

MADE = {
    "every kind of entry": Made({LOG: SEGMENT}),
    "every kind of entry, first 300 bytes": Made({LOG: SEGMENT}, ("--max-bytes", "300")),
    "every kind of entry, first 17 bytes": Made({LOG: SEGMENT}, ("--max-bytes", "17")),
    "no entry": Made({LOG: b""}),
    "a partial tail": Made({LOG: _THREE[:-1]}),
    "a tail shorter than a header": Made({LOG: _THREE + b"\1" * 17}),
    "a partial tail in a closed segment": Made({LOG: _THREE[:-1], "00000000000000000105.log": _FIRST}, is_damaged=True),
    "zeros at the end": Made({LOG: _THREE + bytes(100)}),
    "zeros at the end of a closed segment": Made(
        {LOG: _THREE + bytes(100), "00000000000000000105.log": _FIRST}, is_damaged=True
    ),
    "zeros in the middle": Made({LOG: _FIRST + bytes(100) + _SECOND}, is_damaged=True),
    "a flipped bit in the records": Made({LOG: _changed(_THREE, len(_FIRST) + 63, b"\x7f")}, is_damaged=True),
    "a flipped bit in the producer id": Made({LOG: _changed(_THREE, len(_FIRST) + 45, b"\x80")}, is_damaged=True),
    "a flipped sequence": Made({LOG: _changed(_THREE, len(_FIRST) + 53, b"\x7f\xff\xff\xff")}, is_damaged=True),
    "a negative last offset delta": Made({LOG: _changed(_THREE, len(_FIRST) + 23, b"\x80")}, is_damaged=True),
    "a size that is too long": Made({LOG: _changed(_THREE, len(_FIRST) + 8, b"\0\0\0\x78")}, is_damaged=True),
    "a size that leaves the file": Made({LOG: _changed(_THREE, len(_FIRST) + 8, b"\x7f")}),
    "a negative size": Made({LOG: _changed(_THREE, len(_FIRST) + 8, b"\xff")}, is_damaged=True),
    "a size below the smallest": Made({LOG: _changed(_THREE, len(_FIRST) + 8, b"\0\0\0\x0d")}, is_damaged=True),
    "a size below the header's": Made({LOG: _changed(_THREE, len(_FIRST) + 8, b"\0\0\0\x1e")}, is_damaged=True),
    "a short batch at the very end": Made(
        {LOG: _FIRST + _changed(_SECOND[:40], 8, (28).to_bytes(4, "big"))}, is_damaged=True
    ),
    "magic 3": Made({LOG: _changed(_THREE, len(_FIRST) + 16, b"\3")}, is_damaged=True),
    "magic -1": Made({LOG: _changed(_THREE, len(_FIRST) + 16, b"\xff")}, is_damaged=True),
    "magic flipped to 0": Made({LOG: _changed(_THREE, len(_FIRST) + 16, b"\0")}, is_damaged=True),
    "magic flipped to 1": Made({LOG: _changed(_THREE, len(_FIRST) + 16, b"\1")}, is_damaged=True),
    "codec 5": Made({LOG: _changed(_THREE, len(_FIRST) + 22, b"\x05")}, is_damaged=True),
    "codec 6 in an old entry": Made(
        {LOG: _FIRST + _changed(lb.legacy_entry(102), 17, b"\x06") + lb.legacy_entry(103)}, is_damaged=True
    ),
    "a flipped bit in an old entry": Made(
        {LOG: lb.legacy_entry(100, 0) + _changed(lb.legacy_entry(101), 30, b"\x40")}, is_damaged=True
    ),
    "offsets out of order": Made({LOG: _SECOND + _FIRST}, is_damaged=True),
    "an offset below the base": Made({LOG: lb.data_batch(99, 1) + _FIRST}, is_damaged=True),
    "a control record that no producer writes": Made(
        {LOG: _FIRST + lb.control_batch(102, lb.KRAFT_VERSION, b"\0\0\0\1", producer_id=7, epoch=0)}, is_damaged=True
    ),
    "a KRaft snapshot": Made(
        {
            "00000000000000000123-0000000007.checkpoint": lb.control_batch(0, lb.SNAPSHOT_HEADER, b"\0\0" + bytes(9))
            + lb.data_batch(1, 2)
            + lb.control_batch(3, lb.SNAPSHOT_FOOTER, b"\0\0\0")
        }
    ),
    "a KRaft snapshot cut short": Made(
        {"00000000000000000123-0000000007.checkpoint": lb.data_batch(0, 2)[:-3]}, is_damaged=True
    ),
    "a producer snapshot": Made({SNAPSHOT: _SNAPSHOT}),
    "a producer snapshot without producers": Made({SNAPSHOT: _snapshot()}),
    "a producer snapshot with a flipped bit": Made({SNAPSHOT: _changed(_SNAPSHOT, 50, b"\x40")}, is_damaged=True),
    "a producer snapshot cut short": Made({SNAPSHOT: _SNAPSHOT[:-1]}, is_damaged=True),
    "a producer snapshot of 0 bytes": Made({SNAPSHOT: b""}, is_damaged=True),
    "an offset index": Made({INDEX: _INDEX, LOG: b"".join(_LARGE)}),
    "an offset index, preallocated": Made({INDEX: _INDEX + bytes(800), LOG: b"".join(_LARGE)}),
    "an offset index, preallocated and empty": Made({INDEX: bytes(800), LOG: b"".join(_LARGE)}),
    "an offset index of 0 bytes": Made({INDEX: b"", LOG: b"".join(_LARGE)}),
    "an offset index that names later offsets": Made(
        {INDEX: struct.pack(">ii", 4, 2 * len(_LARGE[0])), LOG: b"".join(_LARGE)}
    ),
    "an offset index that leaves the log": Made({INDEX: _INDEX, LOG: b"".join(_LARGE[:3])}, is_damaged=True),
    "an offset index that points into a batch": Made(
        {INDEX: struct.pack(">ii", 2, 2 * len(_LARGE[0]) + 100), LOG: b"".join(_LARGE)}, is_damaged=True
    ),
    "an offset index of an odd length": Made({INDEX: _INDEX + b"\1", LOG: b"".join(_LARGE)}, is_damaged=True),
    "a time index": Made({TIME_INDEX: _TIMES, INDEX: _INDEX, LOG: b"".join(_LARGE)}),
    "a time index, preallocated": Made({TIME_INDEX: _TIMES + bytes(120), INDEX: _INDEX, LOG: b"".join(_LARGE)}),
    "a time index that goes back": Made(
        {TIME_INDEX: _TIMES[12:] + _TIMES[:12], INDEX: _INDEX, LOG: b"".join(_LARGE)}, is_damaged=True
    ),
    "a transaction index": Made({TXN_INDEX: _ABORTED + struct.pack(">hqqqq", 255, 8, 105, 111, 105)}),
    "a transaction index of version 1": Made({TXN_INDEX: _ABORTED + b"\1" + _ABORTED[1:]}, is_damaged=True),
    "a transaction index cut short": Made({TXN_INDEX: _ABORTED + _ABORTED[:20]}, is_damaged=True),
}


def golden_of_real(path: str) -> Path:
    """Where the dump of a real file is kept."""
    return GOLDEN / "real" / f"{path}.txt"


def golden_of_made(name: str) -> Path:
    """Where the dump of a made file is kept."""
    return GOLDEN / "made" / f"{name}.txt"
