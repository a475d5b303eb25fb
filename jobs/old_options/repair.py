"""Options of `tiersnap repair`: which snapshots are to be written, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.log_dirs import selection_options
from tiersnap.jobs.old_options.paths import LocalPath
from tiersnap.jobs.old_options.together import as_one
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.hands_off import refuse_log_dir
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.repair.files import elsewhere, in_place, nowhere
from tiersnap.snapshot.repair.partition import OpenFiles
from tiersnap.snapshot.repair.plan import PlanOptions


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What was asked for; times in ms.

    Raises:
        UsageError: options that exclude each other, or --out is a broker's.
    """

    out: Path | None
    every_boundary: bool
    expiration: int | None
    as_of: int | None
    replace: bool
    above_newest: bool
    selection: Selection
    check_crc: bool
    producer_expiration: int | None
    now: int
    apply: bool

    def __post_init__(self) -> None:
        if self.apply and self.out is not None:
            raise UsageError("--apply writes into LOGDIR and --out elsewhere: give one of them")
        if self.every_boundary and self.out is None:
            raise UsageError("--all writes boundaries that have a file already: give --out DIR to write them elsewhere")
        params.expiry(self.expiration, self.as_of, self.now, self.producer_expiration)
        if self.out is not None:
            refuse_log_dir(self.out, "--out")

    @property
    def options(self) -> PlanOptions:
        """How to plan."""
        expiry = params.expiry(self.expiration, self.as_of, self.now, self.producer_expiration)
        return PlanOptions(expiry, self.producer_expiration, self.every_boundary, self.replace, self.above_newest)

    @property
    def writes(self) -> bool:
        """Whether files are written, wherever."""
        return self.apply or self.out is not None

    @property
    def open_files(self) -> OpenFiles:
        """Where the files of a partition go."""
        if self.out is not None:
            return partial(elsewhere, self.out, self.replace)
        return in_place if self.apply else nowhere


# Given to the command as `asked: RepairRequest`.
repair_options = as_one(
    "asked",
    RepairRequest,
    click.option("--out", type=LocalPath(file_okay=False), help="Write below this directory instead."),
    click.option(
        "--all", "every_boundary", is_flag=True, help="With --out: every boundary, also those that have a file."
    ),
    params.expiration_option,
    params.as_of_option,
    click.option("--replace", is_flag=True, help="Also replace files that are CORRUPT or SUSPECT."),
    click.option("--above-newest", is_flag=True, help="Also write above the newest snapshot that is there."),
    selection_options,
    params.crc_option,
    params.producer_expiration_option,
    params.now_option,
    click.option("--apply", is_flag=True, help="Write into LOGDIR; the broker must be stopped."),
)
