"""Why a command ends otherwise than the most severe one in the same situation: the question that it does not ask.

docs/exit-codes.md prints the letter beside the code, and the sentences below the tables. A cell that differs from the
most severe code of its row needs a letter here; a letter that no cell needs is an error of the table.
"""

from __future__ import annotations

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
    "forgetful replica": {
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


def cells(situation: str, commands: Sequence[str], codes: Sequence[int | None]) -> Iterator[str]:
    """Yield the code of each command as the page has it: `-` without one, with a letter if it is not the most severe.

    Raises:
        KeyError: no letter says why.
    """
    letters = {
        command: letter
        for letter, names in {**WHY, **WHY_REMOTE}.get(situation, {}).items()
        for command in names.split(", ")
    }
    most = worst(codes)
    for command, code in zip(commands, codes, strict=True):
        yield "-" if code is None else str(code) if code == most else f"{code} {letters[command]}"


LEGEND = "\n## Codes that differ\n\nA letter beside a code says what the command does not ask, or asks first:\n\n"


def legend() -> str:
    """Return the sentences that the letters stand for, below their heading."""
    return LEGEND + "".join(f"- *{letter}*: {sentence}\n" for letter, sentence in REASONS.items())
