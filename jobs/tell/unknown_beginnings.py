"""What a command says of logs whose beginning in remote storage is not known."""

from __future__ import annotations

from collections.abc import Iterator

from tiersnap.jobs.again import again
from tiersnap.snapshot.replay.beginnings import Beginnings
from tiersnap.snapshot.replay.remote_state import ELSEWHERE

REMOTE = "s3://bucket/prefix"


def with_remote() -> str:
    """Return the command that is running, with a place of remote storage to be filled in."""
    return again("--remote", REMOTE)


def lines(beginnings: Beginnings) -> Iterator[str]:
    """Return why remote storage does not tell how a log begins, for each, and what comes next."""
    yield from (f"{name}: {why}" for name, why in beginnings.unknown.items())
    if beginnings.may_pass:
        yield f"next: {again()}"
    elif beginnings.unknown:
        yield f"{ELSEWHERE}; if they are: docs/runbook.md, where the log begins in remote storage"
