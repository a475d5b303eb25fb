"""Next steps of verdicts for a person at one host: commands that can be pasted, with the options that were given.

`readiness.NEXT_STEP` speaks to a fleet. Here `tiersnap run` becomes the command that tiers from this host, LOGDIR the
log directories as they were given, REMOTE remote storage if it was named, and `dump FILE` names the file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tiersnap.snapshot.gate.verdict import NEXT_STEP, Verdict

_PLACES = re.compile(
    r"tiersnap (?P<name>run|(?:transactions )?[a-z][a-z-]* LOGDIR)(?P<flags>(?: --[a-z][a-z-]*(?: [A-Z]{2,})?)*)"
    r"|\b(?P<place>LOGDIR|REMOTE|dump FILE)\b"
)
_FLAG = re.compile(r" (--[a-z][a-z-]*)(?: ([A-Z]{2,}))?")


# Options of a command that names remote storage, and of no other.
OF_PLACE = frozenset({"--layout", "--endpoint-url", "--region", "--path-style", "--checksums"})


def without_place(words: Sequence[str]) -> list[str]:
    """Return the words without the options that say how remote storage is reached, and their values."""
    found: list[str] = []
    is_kept = True
    for word in words:
        is_kept = word not in OF_PLACE if word.startswith("--") else is_kept
        found += [word] if is_kept else []
    return found


@dataclass(frozen=True, slots=True)
class HostCommands:
    """The command that was called."""

    log_dirs: Sequence[str]  # as they were given
    tier: str  # the command that tiers what is READY, for a shell; without --apply
    remote: str = ""  # as it was given, "" if it was not
    # Words of the options that were given, by the commands that have them as well.
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def next_step(self, verdict: Verdict, segment_file: str = "FILE") -> str:
        """Return what clears the verdict, or ""; `segment_file` is the path of a segment that has it."""
        return self.of(NEXT_STEP[verdict], segment_file)

    def of(self, step: str, segment_file: str = "FILE") -> str:
        """Return a text of NEXT_STEP with what is known filled in."""

        def filled(match: re.Match[str]) -> str:
            if match["place"] is not None:
                return self._place(match["place"], segment_file)
            *name, last = match["name"].split()
            asks = "--remote" in match["flags"]
            base = self.tier if last == "run" else self._on_log_dirs(" ".join(name), asks=asks)
            return " ".join([base, *self._flags(match["flags"], base.split())])

        return _PLACES.sub(filled, step)

    def _on_log_dirs(self, name: str, *, asks: bool) -> str:
        given = self.options.get(name, ())
        return shlex.join(["tiersnap", *name.split(), *self.log_dirs, *(given if asks else without_place(given))])

    def _flags(self, flags: str, given: Sequence[str]) -> Iterator[str]:
        """The flags of a step that were not given already."""
        for flag, value in _FLAG.findall(flags):
            if flag not in given:
                yield flag
                yield from (self._place(each, "FILE") for each in [value] if each)

    def _place(self, name: str, segment_file: str) -> str:
        known = {
            "LOGDIR": shlex.join(self.log_dirs),
            "REMOTE": shlex.quote(self.remote) if self.remote else "s3://bucket/prefix",
            "dump FILE": f"dump {shlex.quote(segment_file)}",
        }
        return known.get(name, name)
