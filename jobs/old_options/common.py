"""Option types and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import click

from tiersnap.jobs.option_types import clock as clock
from tiersnap.jobs.output import Format, Output
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.replay.expiry import Expiry
from tiersnap.snapshot.units import format_duration, parse_duration, parse_size

_LAST_MS = 253_402_300_799_999  # of the year 9999
_MOST_SHOWN = 40


def parse_time(text: str) -> int:
    """An ISO 8601 time (UTC unless it says otherwise) or epoch milliseconds -> epoch milliseconds.

    Raises:
        ValueError: the text is neither.
    """
    text = text.strip()
    if re.fullmatch("[0-9]{1,15}", text) and int(text) <= _LAST_MS:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"{text[:_MOST_SHOWN]!r} is not a time; use 2026-11-21T12:45:00Z or epoch milliseconds"
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class Duration(click.ParamType[int | None]):
    """Milliseconds or None; see snapshot.units.parse_duration."""

    name = "duration"

    def text(self, value: object) -> str:
        """A value as the user would write it."""
        return format_duration(value if isinstance(value, int) else None)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Parse, or fail as a usage error."""
        if value is None or isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Size(click.ParamType[int]):
    """Bytes; see snapshot.units.parse_size."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as a usage error."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Time(click.ParamType[int]):
    """Epoch milliseconds, those of the command's clock for `now`; see parse_time."""

    name = "time"

    def text(self, value: object) -> str:
        """A value as the user would write it."""
        return datetime.fromtimestamp(value / 1000, UTC).isoformat() if isinstance(value, int) else "now"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as a usage error."""
        if isinstance(value, int):
            return value
        if value == "now":
            return clock(ctx)
        try:
            return parse_time(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class TimeOrBoundary(click.ParamType[int | None]):
    """A Time, or None for `boundary`."""

    name = "time"

    def text(self, value: object) -> str:
        """A value as the user would write it."""
        return "boundary" if value is None else Time().text(value)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Parse, or fail as a usage error."""
        return None if value in (None, "boundary") else Time().convert(value, param, ctx)


class Pattern(click.ParamType[re.Pattern[str]]):
    """A regular expression that must match a whole topic name."""

    name = "regex"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        """Compile, or fail as a usage error."""
        if isinstance(value, re.Pattern):
            return value
        try:
            return re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r}: {error}; a regular expression is wanted, as 'orders|payments-.*'", param, ctx)


Decorator = Callable[[Callable[..., object]], Callable[..., object]]


def _set_format(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.find_object(Output).format = Format(value)  # type: ignore[union-attr]


# Accepted before and after the command's name, because people write it in either place.
output_option: Decorator = click.option(
    "--output",
    type=click.Choice([format.value for format in Format]),
    callback=_set_format,
    expose_value=False,
    help="Form of what goes to stdout; table is the default.",
)
topic_option: Decorator = click.option(
    "--topic", type=Pattern(), help="Only topics whose whole name matches this regular expression."
)
crc_option: Decorator = click.option(
    "--check-crc/--no-check-crc", default=True, show_default=True, help="Verify the CRC-32C of every batch."
)
expiration_option: Decorator = click.option(
    "--expiration",
    type=Duration(),
    default="7d",
    show_default=True,
    help="Leave out producers that were idle this long where the segment ends: the broker's "
    "transactional.id.expiration.ms; none keeps all.",
)
as_of_option: Decorator = click.option(
    "--as-of",
    type=TimeOrBoundary(),
    default="boundary",
    show_default=True,
    help="Count --expiration back from this time instead, for all segments: now, or an ISO 8601 time.",
)
producer_expiration_option: Decorator = click.option(
    "--producer-expiration",
    type=Duration(),
    default="1d",
    show_default=True,
    help="The broker's producer.id.expiration.ms: what it drops when it loads a snapshot, a snapshot may lack.",
)
now_option: Decorator = click.option(
    "--now",
    type=Time(),
    default="now",
    help="Judge as if it were this time: for disks that were copied long ago.  [default: the clock]",
)


def expiry(expiration: int | None, as_of: int | None, now: int, producer_expiration: int | None) -> Expiry:
    """The rule that --expiration, --as-of and --producer-expiration give together.

    Raises:
        UsageError: a file by that rule would lack producers that a broker still keeps.
    """
    if expiration is not None and (producer_expiration is None or expiration < producer_expiration):
        raise UsageError(
            f"--expiration {format_duration(expiration)} is below the broker's producer.id.expiration.ms, "
            f"{format_duration(producer_expiration)}: the files would lack producers that it still keeps",
            hint="give a longer --expiration, or the broker's own value as --producer-expiration",
        )
    if as_of is not None and as_of > now:
        raise UsageError(
            "--as-of lies in the future: the files would lack producers that are alive",
            hint="leave --as-of out: expiry is then counted at each boundary",
        )
    return Expiry(expiration, now, as_of)
