"""The plot of the waiting bytes by run: a line over a time axis, with a scale of bytes.

A verdict is valid until the next run, so the line has steps. Positions are in per cent from the left or the top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiersnap.snapshot.report.html_parts import moment, percent
from tiersnap.snapshot.report.run_info import WaitingAt
from tiersnap.snapshot.units import human_bytes

MOST_POINTS = 400
_MOST_DOTS = 60
_MOST_SIZES, _MOST_TIMES = 4, 6
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_YEAR = 365 * _DAY
_TIME_STEPS = (
    *(_MINUTE, 5 * _MINUTE, 15 * _MINUTE),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY),
    _YEAR,
)
# A label closer to an edge than this is aligned with the edge, in per cent.
_EDGE = 6.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis, or a run on the line. `y` is "" for a mark of the time axis."""

    x: str
    y: str
    label: str
    anchor: str = "start"


@dataclass(frozen=True, slots=True)
class Plot:
    """The line and its axes.

    Attributes:
        line, area: points of a polyline and of a polygon, in a box of 1000 by 100.
        sizes, times: marks of the axes.
        dots: runs with time and bytes; empty if there are more than _MOST_DOTS.
        says: description of the plot, for readers who cannot see it.
    """

    line: str
    area: str
    sizes: tuple[Tick, ...]
    times: tuple[Tick, ...]
    dots: tuple[Tick, ...]
    says: str


def plot_of(trend: Sequence[WaitingAt]) -> Plot | None:
    """Return the plot of the newest runs; None if all runs have the same time, or if nothing waited in them.

    Args:
        trend: waiting bytes by time, ascending.
    """
    shown = trend[-MOST_POINTS:]
    highest = max((each.bytes for each in shown), default=0)
    if not highest or shown[0].at == shown[-1].at:
        return None
    step = _size_step(highest)
    axes = _Axes(shown[0].at, shown[-1].at, step * -(-highest // step))
    line = " ".join(_corners(shown, axes))
    return Plot(
        line=line,
        area=f"0,100 {line} 1000,100",
        sizes=tuple(_sizes(axes, step)),
        times=tuple(_times(axes)),
        dots=tuple(_dots(shown, axes)),
        says=_sentence(shown, highest),
    )


@dataclass(frozen=True, slots=True)
class _Axes:
    """The scales of the axes: times from `start` to `end` (ms), and bytes from 0 to `top`."""

    start: int
    end: int
    top: int

    def x(self, at: int) -> float:
        return 100 * (at - self.start) / (self.end - self.start)

    def y(self, size: int) -> float:
        return 100 - 100 * size / self.top


def _corners(shown: Sequence[WaitingAt], axes: _Axes) -> Iterator[str]:
    """Yield the corners of the line in a box of 1000 by 100."""
    before = shown[0]
    for each in shown:
        yield f"{10 * axes.x(each.at):.1f},{axes.y(before.bytes):.2f}"
        yield f"{10 * axes.x(each.at):.1f},{axes.y(each.bytes):.2f}"
        before = each


def _dots(shown: Sequence[WaitingAt], axes: _Axes) -> Iterator[Tick]:
    """Yield a dot per run. Yield nothing if there are more than _MOST_DOTS runs."""
    if len(shown) > _MOST_DOTS:
        return
    for each in shown:
        yield Tick(percent(axes.x(each.at)), percent(axes.y(each.bytes)), _run_in_words(each))


def _size_step(highest: int) -> int:
    """Return the smallest power of two such that _MOST_SIZES steps reach `highest`."""
    step = 1
    while step * _MOST_SIZES < highest:
        step *= 2
    return step


def _sizes(axes: _Axes, step: int) -> Iterator[Tick]:
    for size in range(0, axes.top + 1, step):
        yield Tick("0%", percent(axes.y(size)), human_bytes(size).replace(".0 ", " "))


def _times(axes: _Axes) -> Iterator[Tick]:
    length = axes.end - axes.start
    step = next((each for each in _TIME_STEPS if length // each < _MOST_TIMES), length // _MOST_TIMES + 1)
    if length > _YEAR:
        form = "%b %Y"
    elif step >= _DAY:
        form = "%d %b"
    else:
        form = "%d %b %H:%M"
    for at in range(-(-axes.start // step) * step, axes.end + 1, step):
        x = axes.x(at)
        yield Tick(percent(x), "", moment(at, form), _anchor(x))


def _anchor(x: float) -> str:
    if x < _EDGE:
        return "start"
    return "end" if x > 100 - _EDGE else "middle"


def _run_in_words(run: WaitingAt) -> str:
    return f"{moment(run.at)} UTC · {human_bytes(run.bytes)} waiting"


def _sentence(shown: Sequence[WaitingAt], highest: int) -> str:
    first, last = shown[0], shown[-1]
    return (
        f"{human_bytes(first.bytes)} waited at {moment(first.at)} UTC. Since then, at most {human_bytes(highest)} "
        f"waited. At {moment(last.at)} UTC, {human_bytes(last.bytes)} waited."
    )
