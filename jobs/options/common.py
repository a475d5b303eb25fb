"""Option types and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import click

from tiersnap.jobs.output import Format, Output

_DURATION = re.compile(r"^(?P<number>\d+)(?P<unit>ms|s|m|h|d)?$")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1}


def parse_duration(text: str) -> int | None:
    """'7d' -> milliseconds; 'none' -> None.

    Raises:
        ValueError: the text is neither.
    """
    if text.strip().lower() == "none":
        return None
    match = _DURATION.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration; use none, 500ms, 30s, 15m, 12h or 7d")
    return int(match["number"]) * _UNIT_MS[match["unit"]]


def duration_in_words(milliseconds: int | None) -> str:
    """The inverse of `parse_duration`, in the largest unit that is whole."""
    if milliseconds is None:
        return "none"
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % _UNIT_MS[unit] == 0:
            return f"{milliseconds // _UNIT_MS[unit]}{unit}"
    return f"{milliseconds}ms"


def parse_time(text: str) -> int:
    """'now', an ISO 8601 time (UTC unless it says otherwise) or epoch milliseconds -> epoch milliseconds.

    Raises:
        ValueError: the text is none of them.
    """
    text = text.strip()
    if text == "now":
        return int(datetime.now(UTC).timestamp() * 1000)
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time; use now, 2026-11-21T12:45:00Z or epoch milliseconds") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class Duration(click.ParamType[int | None]):
    """Milliseconds or None; see parse_duration."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Parse, or fail as a usage error."""
        if value is None or isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Time(click.ParamType[int]):
    """Epoch milliseconds; see parse_time."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as a usage error."""
        if isinstance(value, int):
            return value
        try:
            return parse_time(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
            self.fail(f"{value!r}: {error}", param, ctx)


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
    help="Leave out producers idle this long at --as-of: the broker's transactional.id.expiration.ms; none keeps all.",
)
as_of_option: Decorator = click.option(
    "--as-of", type=Time(), default="now", show_default=True, help="The moment --expiration counts back from."
)
producer_expiration_option: Decorator = click.option(
    "--producer-expiration",
    type=Duration(),
    default="1d",
    show_default=True,
    help="The broker's producer.id.expiration.ms: a snapshot may lack producers that were idle this long.",
)
