"""What differs between any two runs, replaced by words that do not: ids, times, durations, paths, free space."""

from __future__ import annotations

import re
from collections.abc import Mapping

_RUN = re.compile(r"\b20\d{6}T\d{6}Z-[0-9a-f]{6}\b")
_SECONDS = re.compile(r"\b\d+(\.\d+)? ?(s|ms)\b")
_MOMENT = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|\+00:00| UTC)?")
_EPOCH_MS = re.compile(r"\b1[78]\d{11}\b")
_LAST_RECORD = 1_795_305_600_000  # ms; later times are those of a run
# The logs are some MiB: what is told in GiB, and shares of it, are the disk's.
_FREE = re.compile(
    r"\b\d+(\.\d+)? GiB\b|\"(free|disk|total|free_bytes|disk_bytes|days(_when_freed)?)\": ?[\d.]+|\d+ % full"
)
_SHARE = re.compile(r"\b(x|width)=\"[\d.]+%\"")
_PROCESS = re.compile(r"\bpid \d+\b|\"(pid|processStart)\": ?[\"\w/-]+")
# What is said every 30 s of how far a command is: of the machine, not of the command.
_PROGRESS = re.compile(r"^\w+: (\d+ (of \d+ )?partitions?.* in )?[\d.]+ s(, now .*)?\n", re.MULTILINE)
# What `collect` names anew in each run, behind the offset.
_COLLECTED = re.compile(r"(?<=\d{20}-)[0-9a-f]{12}(?=\.(segments|batches|snapshot))")
# How long each phase of `run` took, in words and in JSON.
_PHASES = "list|decode|replay|remote|verdicts|tier|report"
_PHASE = re.compile(rf'\b\d+\.\d+ ({_PHASES})\b|\\?"({_PHASES})\\?": ?\d+\.\d+')
_METRIC = re.compile(r"(_(?:duration|timestamp)_seconds(?:\{[^}]*\})?) [\d.]+")
# It is taken over the columns of a listing in the order of the schema, which has changed; what is in them is compared.
_FINGERPRINT = re.compile(r"(?<=\"fingerprint\": \")[0-9a-f]{24}(:[0-9a-f]{24})?")
_SPARK_FILE = re.compile(r"(?<=part-\d{5}-)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PORT = re.compile(r"127\.0\.0\.1:\d+")


def text(said: str, paths: Mapping[str, str], ids: Ids) -> str:
    """Return `said` with the paths of the workspace named and what is new in each run replaced."""
    said = _PROGRESS.sub("", said)
    said = re.sub(r" +$", "", said, flags=re.MULTILINE)  # tables were padded to their width
    for path, name in sorted(paths.items(), key=lambda each: -len(each[0])):
        said = said.replace(path, name)
    said = _RUN.sub("<run>", said)
    said = ids.replace(said)
    for pattern, word in (
        (_FREE, "<free>"),
        (_SHARE, "<share>"),
        (_SECONDS, "<duration>"),
        (_PROCESS, "<process>"),
        (_PORT, "<server>"),
        (_COLLECTED, "<new>"),
        (_PHASE, "<duration>"),
        (_METRIC, r"\1 <duration>"),
        (_FINGERPRINT, "<fingerprint>"),
        (_SPARK_FILE, "<new>"),
    ):
        said = pattern.sub(word, said)
    return _EPOCH_MS.sub(_moment_of, _MOMENT.sub(lambda found: _of_today(found.group()), said))


def _moment_of(found: re.Match[str]) -> str:
    return found.group() if int(found.group()) < _LAST_RECORD else "<ms>"


def _of_today(moment: str) -> str:
    return moment if moment.startswith("2026-11-21") else "<moment>"


class Ids:
    """Segment ids by the order in which they are met, so that two runs agree on them."""

    _ID = re.compile(r"(?:(?<=\d{20}-)|(?<![A-Za-z0-9_-]))[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])")

    def __init__(self, known: set[str]) -> None:
        """`known` are ids that stay: those of topics, directories and clusters."""
        self._known, self._names = known, dict[str, str]()

    def replace(self, said: str) -> str:
        """Return `said` with `<id 1>` and so on for what looks like an id and is not known."""
        return self._ID.sub(self._name, said)

    def _name(self, found: re.Match[str]) -> str:
        word = found.group()
        if word in self._known or not re.search(r"[A-Z]", word) or not re.search(r"[a-z0-9]", word):
            return word
        return self._names.setdefault(word, f"<id {len(self._names) + 1}>")
