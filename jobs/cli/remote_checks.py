"""The option --remote-checks: read the results of an earlier check of remote storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tiersnap.jobs.cli.option_types import LocalPath, once
from tiersnap.snapshot.errors import UsageError

if TYPE_CHECKING:
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.report.remote_checks import Key, RemoteChecked

# Given to the command as `checks_file: Path | None`; see `read_checks`.
remote_checks_option = once(
    "--remote-checks",
    "checks_file",
    type=LocalPath(dir_okay=False),
    help="JSON lines of tiersnap verify --remote: say how much of remote storage was verified, when and how.",
)


def read_checks(file: Path | None, *, is_shown: bool = True) -> dict[Key, RemoteChecked]:
    """Return how much of each partition's remote segments was verified, by the lines of a file; empty without one.

    Args:
        is_shown: the command writes a page that shows the results.

    Raises:
        SourceNotFoundError, UsageError: see `read_lines`; or no page shows the results.
    """
    from tiersnap.snapshot.report.remote_checks import read_lines, remote_checked

    if file is not None and not is_shown:
        raise UsageError("--remote-checks needs --report: the page shows them", hint="give --report FOLDER")
    return {} if file is None else remote_checked(read_lines(file))


@dataclass(frozen=True, slots=True)
class VerifiedPartition:
    """The part of a partition's remote segments that was verified."""

    partition: str
    topic_id: str | None
    sentence: str


def verified_partitions(file: Path | None) -> list[VerifiedPartition]:
    """Return the results of `read_checks`, sorted by partition."""
    found = sorted(read_checks(file).items(), key=str)
    return [VerifiedPartition(f"{topic}-{number}", of, each.sentence) for (topic, of, number), each in found]


def verified_lines(found: Sequence[VerifiedPartition], place: Place) -> list[str]:
    """Return them for people, or the command that verifies the remote segments."""
    from tiersnap.snapshot.gate.steps_by_problem import VERIFY_AS_LINES

    return [f"{each.partition}: {each.sentence}" for each in found] or [
        f"not yet: {place.text(VERIFY_AS_LINES)} > FILE",
        "--remote-checks FILE shows its result here",
    ]
