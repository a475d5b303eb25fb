"""Why a command ends otherwise than the most severe one in the same situation: the question that it does not ask.

A code of docs/exit-codes.md that differs from the most severe one of its row needs a letter here; a letter that no code
needs is an error. REASONS says what the letters stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_SEVERITY = (0, 3, 2, 6, 4, 5)  # the most severe one last
REASONS = {
    "a": "writes nothing there, so it does not ask whether it may, or has room",
    "b": "reads no file in which this would show",
    "c": "clears it itself, so it does not wait for a person; a plan says what `--apply` clears",
    "d": "judges files that exist; `doctor` and `scan` say what is missing",
    "e": "reads the files that it is given; a file that may not be opened is a usage error",
    "f": "compares no snapshot, index, leader epoch or topic id with the log",
    "g": "asks no remote storage, which alone shows it",
    "h": "asks remote storage, which answers it",
    "i": "judges nothing: `run` judges what it collects",
    "j": "reads tables, which hold no finding outside a partition",
    "k": "reads tables of a replay without remote storage: a log that begins there is not verified, or not asked about",
    "l": "looks for no transaction that hangs",
    "m": "looks at the partitions that a broker loads, and at no folder that was set aside",
    "n": "reads each replica for itself",
    "o": "asks what its own segments need; `scan` and `run` ask which producers a replica lost",
    "p": "writes, so it asks first: no broker may run, and the disk must have room",
    "q": "asks no cluster, which alone shows it",
    "r": "asks remote storage only if a partition is stuck",
    "s": "lists objects and does not read their bytes",
    "t": "first needs a location, a segment or a snapshot that it can take, and finds none",
    "u": "stops at the location, or at a segment that it refuses, and does not judge what brokers lost",
    "v": "reads other objects",
    "w": "looks at no local log directory that is to be written",
    "x": "does not ask whether a copy ends: `doctor` and `unblock` do",
    "y": "uploads also for a cluster that has no tiered storage yet, and says so",
    "z": "asks about the topics and records that the cluster has, and finds all well there",
}
_READERS = "dump, producers, transactions list, find-hanging, simulate, simulate --risk"
_DECODES = "decode, decode -a, audit"
_COLLECTS = "collect, collect -a"
_TIERS = "tier, tier -a, run, run -a"
_VERIFIES = "verify, verify -r"
_REPAIRS = "repair, repair -r"
_NOT_JUDGED = {"f": f"{_READERS}, {_DECODES}", "i": _COLLECTS}
_OF_WRITERS = {
    "a": f"doctor, doctor -r, scan, scan -r, {_VERIFIES}, {_READERS}, {_REPAIRS}, {_TIERS}, {_COLLECTS}, {_DECODES}, "
    "report"
}
_MISSING = {**_NOT_JUDGED, "d": _VERIFIES, "c": f"{_REPAIRS}, repair -a, {_TIERS}"}
_CONTENT = {"b": "doctor, doctor -r", **_NOT_JUDGED}
# By situation: by letter the commands.
WHY: Mapping[str, Mapping[str, str]] = {
    "running": _OF_WRITERS,
    "running cleaner": _OF_WRITERS,
    "disk not mounted": {"e": "dump"},
    "unreadable folder": {"e": "dump", "b": "transactions list"},
    "garbled checkpoint": {"e": "dump", "j": "report"},
    "missing checkpoint": {"e": "dump", "j": "report"},
    "full disk": {**_MISSING, "c": f"{_REPAIRS}, {_TIERS}", "p": "repair -a"},
    "killed cleaner": {"e": "dump", "b": "transactions list"},
    "missing snapshot": _MISSING,
    "no snapshots": _MISSING,
    "suspect snapshot": _CONTENT,
    "corrupt snapshot": _CONTENT,
    "damaged segment": {"b": "doctor, doctor -r, transactions list, decode", "i": _COLLECTS},
    "lost index": {**_NOT_JUDGED, "d": f"{_VERIFIES}, report", "c": _TIERS},
    "damaged index": {**_CONTENT, "c": _TIERS},
    "lost leader epochs": {**_NOT_JUDGED, "c": f"{_REPAIRS}, repair -a, {_TIERS}"},
    "lost topic id": {"e": "dump", "b": "transactions list"},
    "stray partition": {
        "m": f"{_VERIFIES}, {_READERS}, {_REPAIRS}, repair -a, {_TIERS}, {_COLLECTS}, {_DECODES}, report"
    },
    "on two disks": {"e": "dump", "n": f"{_DECODES}, report"},
    "no topic id": {**_NOT_JUDGED, "f": f"{_VERIFIES}, {_READERS}, {_DECODES}"},
    "hanging transaction": {
        "l": f"doctor, doctor -r, scan, scan -r, {_VERIFIES}, dump, producers, transactions list, simulate, "
        f"simulate --risk, {_REPAIRS}, repair -a, {_TIERS}, {_COLLECTS}, {_DECODES}, report"
    },
    "local retention": {
        "g": f"doctor, scan, verify, {_READERS}, repair, repair -a, {_COLLECTS}, {_DECODES}",
        "h": f"doctor -r, scan -r, verify -r, repair -r, {_TIERS}",
    },
    "unknown log start": {
        "e": "dump",
        "b": f"transactions list, {_DECODES}",
        "i": _COLLECTS,
        "h": f"doctor -r, scan -r, verify -r, repair -r, {_TIERS}",
    },
    "rebuilt replica": {
        "g": f"doctor, scan, verify, {_READERS}, repair, repair -a, {_COLLECTS}, {_DECODES}",
        "k": "report",
    },
    "replica without producers": {
        "g": f"doctor, scan, verify, {_READERS}, repair, repair -a, {_COLLECTS}, {_DECODES}",
        "k": "report",
        "o": "tier, tier -a",
    },
    "freed by unblock": {
        **_NOT_JUDGED,
        "d": "verify",
        "h": f"doctor -r, scan -r, verify -r, repair -r, {_TIERS}",
        "c": "repair",
        "p": "repair -a",
    },
}
_UNBLOCK, _MEND, _ORPHANS = (
    "unblock, unblock -a",
    "mend, mend -a",
    "maintain remove-orphans, maintain remove-orphans -a",
)
_PUBLISH, _TIER, _RESTORE = "publish, publish -a", "tier, tier -a", "restore, restore -a"
_INSTALL = "install, install -a"
_OF_CLUSTER = {"q": f"doctor, verify --depth full, {_INSTALL}"}
_HUNG = {
    "q": f"doctor, verify --depth full, {_INSTALL}",
    "c": _UNBLOCK,
    "x": f"{_TIER}, {_PUBLISH}, {_MEND}, {_ORPHANS}",
}
_TARGET = {"w": f"doctor, doctor -b, verify --depth full, {_TIER}, {_PUBLISH}, {_UNBLOCK}, {_MEND}, {_ORPHANS}"}
_OTHER_OBJECTS = {"r": _UNBLOCK, "v": f"{_ORPHANS}, {_INSTALL}", "s": "doctor"}
WHY_REMOTE: Mapping[str, Mapping[str, str]] = {
    "not published": {
        "q": f"doctor, verify --depth full, {_INSTALL}",
        "z": "doctor -b",
        "c": f"{_TIER}, {_PUBLISH}",
        "r": _UNBLOCK,
        "v": f"{_MEND}, {_ORPHANS}",
    },
    "stuck": {**_HUNG, "q": "doctor, verify --depth full", "t": f"{_INSTALL}, {_RESTORE}"},
    "hung copy": {**_HUNG, "v": _RESTORE},
    "empty": {
        "s": "doctor",
        "r": _UNBLOCK,
        "t": f"verify --depth full, {_INSTALL}, {_RESTORE}",
        "u": f"{_TIER}, {_PUBLISH}, {_MEND}",
        "v": _ORPHANS,
    },
    "wrong place": {**_OTHER_OBJECTS, "q": "verify --depth full", "u": f"{_TIER}, {_MEND}, {_RESTORE}"},
    "no such place": {
        "t": f"doctor, doctor -b, verify --depth full, {_PUBLISH}, {_MEND}, {_ORPHANS}, {_INSTALL}, {_RESTORE}",
        "r": _UNBLOCK,
    },
    "lost log": {**_OTHER_OBJECTS, "c": _MEND, "u": f"{_TIER}, {_RESTORE}"},
    "damaged log": {
        "s": f"doctor, doctor -b, {_TIER}, {_PUBLISH}, {_MEND}, restore",
        "r": _UNBLOCK,
        "v": f"{_ORPHANS}, {_INSTALL}",
    },
    "damaged manifest": {**_OTHER_OBJECTS, "s": "doctor, doctor -b", "c": _MEND, "u": f"{_TIER}, {_RESTORE}"},
    "damaged snapshot": {
        "v": f"doctor, doctor -b, verify --depth full, {_TIER}, {_PUBLISH}, {_UNBLOCK}, {_MEND}, {_ORPHANS}, {_RESTORE}"
    },
    "damaged saved configs": {
        "q": "doctor",
        "v": f"verify --depth full, {_TIER}, {_MEND}, {_ORPHANS}, {_INSTALL}, {_RESTORE}",
    },
    "topic deleted": {
        "q": f"doctor, {_INSTALL}",
        "z": f"doctor -b, {_MEND}, {_ORPHANS}",
        "r": _UNBLOCK,
        "t": f"verify --depth full, {_PUBLISH}, {_RESTORE}",
    },
    "topic made anew": {**_OF_CLUSTER, "z": f"doctor -b, {_MEND}, {_ORPHANS}", "r": _UNBLOCK},
    "unmanaged": {**_OF_CLUSTER, "z": f"doctor -b, {_MEND}", "r": _UNBLOCK},
    "no metadata topic": {**_OF_CLUSTER, "y": _TIER},
    "cluster away": _OF_CLUSTER,
    "cluster refuses": _OF_CLUSTER,
    "target has it": {**_TARGET, "v": _INSTALL},
    "target runs": {**_TARGET, "a": "install, restore"},
    "target full": {**_TARGET, "a": "install, restore"},
}


def worst(codes: Sequence[int | None]) -> int:
    """Return the most severe code of a row."""
    return max((code for code in codes if code is not None), key=_SEVERITY.index)


def grouped(commands: Sequence[str], codes: Sequence[int | None]) -> str:
    """Return the codes of a row, the most severe first: `4: doctor, scan; 0: others`.

    A name stands for its variants if they all end alike, else `plain doctor` is the command without options. `others`,
    or `all`, are the commands of the code that most have.
    """
    by_code: dict[int | None, list[str]] = {}
    for command, code in zip(commands, codes, strict=True):
        by_code.setdefault(code, []).append(command)
    most = max((code for code in by_code if code is not None), key=lambda code: len(by_code[code]))
    severe = sorted((code for code in by_code if code not in (None, most)), key=_severity, reverse=True)
    parts = [f"{code}: {', '.join(_names(by_code[code], commands))}" for code in severe]
    if None in by_code:
        parts.append(f"not called: {', '.join(_names(by_code[None], commands))}")
    return "; ".join([*parts, f"{most}: {'others' if parts else 'all'}"])


def codes_in(cell: str, commands: Sequence[str]) -> list[int | None]:
    """Return the code of each command as `grouped` wrote it."""
    *parts, (most, _) = (part.split(": ") for part in cell.split("; "))
    found: dict[str, int | None] = {}
    for code, names in parts:
        for name in names.split(", "):
            variants = [name.removeprefix("plain ")] if name not in commands or name.startswith("plain ") else [name]
            if name in commands and name == _base(name):
                variants = [each for each in commands if _base(each) == name]
            found |= dict.fromkeys(variants, None if code == "not called" else int(code))
    return [found.get(command, int(most)) for command in commands]


def _severity(code: int | None) -> int:
    return -1 if code is None else _SEVERITY.index(code)


def _base(command: str) -> str:
    """Return the name without the options that the page abbreviates: `doctor` for `doctor -r`."""
    return re.sub(r" -\w$", "", command)


def _names(group: Sequence[str], commands: Sequence[str]) -> Iterator[str]:
    """Yield the names of a group, one for all variants of a command if the group has all of them."""
    for command in group:
        variants = [each for each in commands if _base(each) == _base(command)]
        if len(variants) == 1 or not set(variants) <= set(group):
            yield f"plain {command}" if command == _base(command) and len(variants) > 1 else command
        elif command == variants[0]:
            yield _base(command)
