"""What happened, in the order in which it was told: a JSON object a line, with `type` and `at` (ms since the start).

    topic     topic, generation, clean (never led by a replica out of sync)
    sent      topic, generation, producer, numbers [first, end), transaction (its name, or null)
    acked     topic, generation, producer, records [[number, offset]]; offset -1 where the client was not told
    ended     transaction, end: committed | aborted | unknown
    began     reading (its name), topic, isolation, phase: live | before (tiersnap finished) | final
    read      reading, topic, records [[offset, leader epoch, key]]
    trimmed   topic, generation, before (exclusive): told by a broker
    unclean   topic
    partition topic, generation, topic_id, log_start, log_end, local_start, epochs [[epoch, start]]: at the end
    segment   topic, topic_id, id, start, end (inclusive), state, epochs, ours (a claim names it)
    object    topic, topic_id, id, key, claimed, named (by `maintain remove-orphans`)
    snapshot  topic, id, ours, offset, entries, folded: rows of a file, and of the fold of the remote logs up to it
    skipped   topic: a marker that its coordinator left out, by a broker's log (skipped_markers)
    ran       words, exit_code, killed, hung, seconds, error: one command of tiersnap
    fault     name, and what it needs to be understood

Every topic has one partition. A record's key says who wrote it: generation|producer|number|transaction.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

Event = dict[str, Any]


class Key(NamedTuple):
    """Who wrote a record; `transaction` is empty outside one."""

    generation: int
    producer: str
    number: int
    transaction: str

    def encode(self) -> str:
        return f"{self.generation}|{self.producer}|{self.number}|{self.transaction}"

    @classmethod
    @cache
    def decode(cls, text: str) -> Key:
        """The same object for the same text: a record is read many times."""
        generation, producer, number, transaction = text.split("|")
        return cls(int(generation), producer, int(number), transaction)


class History:
    """Written line by line by many threads, so that a run that is cut off leaves what it had."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self.began, self._began = datetime.now(UTC), time.monotonic()
        self._file = path.open("a", encoding="utf-8")

    def tell(self, type: str, **fields: object) -> None:
        event = {"type": type, "at": int((time.monotonic() - self._began) * 1000), **fields}
        with self._lock:
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


def events(path: Path) -> Iterator[Event]:
    """Events of a file; an unfinished last line is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
