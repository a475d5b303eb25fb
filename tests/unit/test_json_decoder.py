"""Decoders that many threads ask for at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

# Types of its own, which no import has met; claims and manifests are read in threads like this.
_AT_ONCE = """
from __future__ import annotations
import sys, threading
from dataclasses import dataclass
import msgspec
from tiersnap.snapshot.json_decoder import decoder

class Part(msgspec.Struct):
    size: int
    names: dict[str, int | None]

class Whole(msgspec.Struct, rename="camel"):
    first_part: Part
    parts: list[Part]
    more: tuple[Part, ...] = ()

sys.setswitchinterval(1e-6)
part = b'{"size": 1, "names": {"a": 1}}'
text = b'{"firstPart": %b, "parts": [%b], "more": [%b]}' % (part, part, part)
begin = threading.Barrier(16)

def read():
    begin.wait()
    for _ in range(200):
        assert decoder(Whole).decode(text).parts[0].size == 1

threads = [threading.Thread(target=read) for _ in range(16)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_decoder_of_a_type_that_threads_meet_at_once_crashes_none() -> None:
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
