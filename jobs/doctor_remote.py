"""`tiersnap doctor --remote`: what a store does for its users, a line each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict

from tiersnap.remote_storage.probe.answer import ProbeAnswer, ProbeVerdict
from tiersnap.remote_storage.probe.store import probe_store
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode


def asked(remote: str | None, s3: S3Settings) -> list[ProbeAnswer]:
    """The answers of a store; none where none was named."""
    if remote is None:
        return []
    store = open_store(remote, s3)
    store.now()  # connects, which takes a while and would pass for a difference of clocks
    return list(probe_store(store, time.time_ns() // 1_000_000))


def lines(answers: Sequence[ProbeAnswer]) -> list[str]:
    """An answer a line, with what to do behind it."""
    return [
        f"{each.probe}: {each.verdict}, {each.message}" + (f"; {each.next_step}" if each.next_step else "")
        for each in answers
    ]


def rows(answers: Sequence[ProbeAnswer]) -> list[dict[str, object]]:
    """The same as data."""
    return [{**asdict(each), "verdict": str(each.verdict)} for each in answers]


def exit_code_of(answers: Sequence[ProbeAnswer]) -> ExitCode:
    """USAGE where the store is not to be trusted as it is set up."""
    return ExitCode.USAGE if any(each.verdict is ProbeVerdict.FAIL for each in answers) else ExitCode.OK
