"""Next steps with this run's places filled in, taken apart into words and commands that can be copied.

`snapshot.readiness.NEXT_STEP` is prose that holds commands:

    tiersnap run --apply, or on the broker host: tiersnap repair LOGDIR --apply
    |------command-----|  |--------words-------| |----------command-----------|

A command is `tiersnap`, a subcommand (of `transactions` with its question), and then only options and UPPER CASE
placeholders. `tiersnap run` gets the run's own --source, --remote and --warehouse, and becomes `tiersnap tier` in a
report of one host; LOGDIR, SOURCE and FILE become the log directories, the source and the segment file, on the host
that has the segments where only decodes were collected; and each command gets the other options that the run was given
and that it has as well. If remote storage is not known, a command that needs it becomes words. Another placeholder that
is not known stays, and the command is incomplete.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tiersnap.snapshot.gate.host_commands import OF_PLACE
from tiersnap.snapshot.report.run_info import RunInfo

_COMMAND = re.compile(r"tiersnap (?:transactions )?[a-z][a-z-]*(?: (?:--[a-z][a-z-]*|[A-Z]{2,}))*")
# A report without a warehouse is of one host, where `tier` does what `run` does for a fleet.
_OF_FLEET = "tiersnap run --source SOURCE --remote REMOTE --warehouse WAREHOUSE"
_OF_HOST = "tiersnap tier SOURCES --remote REMOTE"
_REMOTE = re.compile(r" (?P<option>--[a-z]+) REMOTE\b")
_PLACEHOLDER = re.compile(r"(?:^| )(?P<name>[A-Z]{2,})(?= |$)")


@dataclass(frozen=True, slots=True)
class Step:
    """Words and the command that follows them; either may be "".

    Attributes:
        is_complete: no placeholder is left in the command.
    """

    words: str
    command: str
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a step.

    Attributes:
        log_dirs: entries of log.dirs of one host; empty where it is not one host.
        segment_file: path of a `.log` file, None where there is none.
    """

    log_dirs: tuple[str, ...] = ()
    segment_file: str | None = None


def segment_file(log_dir: str, topic: str, partition: int, base_offset: int) -> str:
    """Path of a segment below its log directory."""
    return f"{log_dir.rstrip('/')}/{topic}-{partition}/{base_offset:020d}.log"


def steps(next_step: str, run: RunInfo, place: Place) -> tuple[Step, ...]:
    """The next step in order, with as much filled in as is known."""
    return tuple(_filled(words, command, run, place) for words, command in _split(next_step))


def text(parts: tuple[Step, ...]) -> str:
    """Steps as one line."""
    return " ".join(part for step in parts for part in (step.words, step.command) if part)


def commands(parts: tuple[Step, ...]) -> tuple[str, ...]:
    """Return the commands of steps in which nothing is left to fill in."""
    return tuple(step.command for step in parts if step.command and step.is_complete)


@lru_cache(maxsize=256)
def _split(next_step: str) -> tuple[tuple[str, str], ...]:
    parts, end = [], 0
    for match in _COMMAND.finditer(next_step):
        parts.append((next_step[end : match.start()].strip(" ,;"), match.group()))
        end = match.end()
    rest = next_step[end:].strip(" ,;")
    return (*parts, (rest, "")) if rest else tuple(parts)


def _filled(words: str, command: str, run: RunInfo, place: Place) -> Step:
    if not command:
        return Step(words, "", True)
    command = command.replace("tiersnap run", _OF_FLEET if run.warehouse else _OF_HOST)
    known = {
        "SOURCE": _sources(run),
        "SOURCES": _sources(run),
        "REMOTE": (run.remote,),
        "WAREHOUSE": (run.warehouse,),
        "LOGDIR": place.log_dirs,
        # --topic-ids FILE is one that the reader has to write.
        "FILE": (None if "--topic-ids FILE" in command else place.segment_file,),
    }
    needs_remote = None if run.remote else _REMOTE.search(command)
    if needs_remote:
        command = _REMOTE.sub("", command)
    is_complete = True

    def fill(match: re.Match[str]) -> str:
        nonlocal is_complete
        values = [shlex.quote(value) for value in known.get(match["name"], ()) if value]
        is_complete &= bool(values)
        between = " --source " if match["name"] == "SOURCE" else " "
        return f" {between.join(values)}" if values else match.group()

    filled = " ".join([_PLACEHOLDER.sub(fill, command), *_kept(command, run)])
    if needs_remote:
        return Step(f"{words} {filled}, given {needs_remote['option']}".strip(), "", True)
    return Step(words, filled, is_complete)


def _sources(run: RunInfo) -> tuple[str, ...]:
    return run.sources or (run.source,)


def by_segment(run: RunInfo) -> str:
    """Return the command that lists every segment of a report."""
    if run.warehouse:
        return shlex.join(["tiersnap", "report", "--warehouse", run.warehouse, "--by", "segment"])
    return shlex.join(["tiersnap", "scan", *_sources(run), "--segments"])


def options_of(run: RunInfo, command: str) -> tuple[str, ...]:
    """The words that a command is to be given as the run was; its name may be of one word or of two."""
    _, name, *rest = command.split()
    return run.options.get(" ".join([name, *rest[:1]]), run.options.get(name, ()))


def _kept(command: str, run: RunInfo) -> Iterator[str]:
    """Options of the run that the command has, but for those that it names itself."""
    words = list(options_of(run, command))
    while words:
        taken = [words.pop(0)]
        while words and not words[0].startswith("--"):
            taken.append(words.pop(0))
        given = command.split()
        if taken[0] not in given and (taken[0] not in OF_PLACE or "--remote" in given):
            yield shlex.join(taken)
