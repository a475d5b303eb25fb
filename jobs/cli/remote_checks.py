"""The option --remote-checks: read the output of an earlier `tiersnap verify --remote`."""

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

# The command receives this option as `checks_file: Path | None`; see `read_checks`.
remote_checks_option = once(
    "--remote-checks",
    "checks_file",
    type=LocalPath(dir_okay=False),
    help="File with the JSON lines of `tiersnap verify --remote --output jsonl`. The page shows which remote segments "
    "were verified, and when.",
)


def read_checks(file: Path | None, *, is_shown: bool = True) -> dict[Key, RemoteChecked]:
    """Return the results in the file by partition: how much of the remote log was verified. Return {} without a file.

    Args:
        file: the file of --remote-checks.
        is_shown: whether the command writes a page with these results.

    Raises:
        SourceNotFoundError: the file does not exist.
        UsageError: a file was given and `is_shown` is False; or `read_lines` raises it.
    """
    from tiersnap.snapshot.report.remote_checks import read_lines, remote_checked

    if file is None:
        return {}
    if not is_shown:
        raise UsageError(
            "--remote-checks needs --report, because the report page shows the results", hint="give --report FOLDER"
        )
    return remote_checked(read_lines(file))


@dataclass(frozen=True, slots=True)
class VerifiedPartition:
    """A partition, and a sentence about how much of its remote log was verified."""

    partition: str
    topic_id: str | None
    sentence: str


def verified_partitions(file: Path | None) -> list[VerifiedPartition]:
    """Return the results of `read_checks`, sorted by partition."""
    found = sorted(read_checks(file).items(), key=str)
    return [VerifiedPartition(f"{topic}-{number}", of, each.sentence) for (topic, of, number), each in found]


def verified_lines(found: Sequence[VerifiedPartition], place: Place) -> list[str]:
    """Return a line per verified partition; if there is none, the commands that verify remote segments."""
    from tiersnap.snapshot.gate.next_steps import VERIFY_AS_LINES

    if not found:
        return [
            f"remote segments are not verified yet; to verify them: {place.text(VERIFY_AS_LINES)} > FILE",
            "to show the result here: --remote-checks FILE",
        ]
    return [f"{each.partition}: {each.sentence}" for each in found]
