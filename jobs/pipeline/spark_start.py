"""Check before a JVM starts that Spark is new enough, and that a Spark master answers.

Spark itself waits more than a minute for a master that is not there.
"""

from __future__ import annotations

import logging
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from tiersnap.jobs.pipeline import delta_jars
from tiersnap.snapshot.errors import MissingExtraError, TransientError, UsageError
from tiersnap.snapshot.installed import with_extra

_log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
_OLDEST_SPARK = (4, 1)
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|k8s://.+|spark://.+|sc://.+")
_USUAL_PORT = {"spark": None, "sc": 15002}  # Spark itself demands one for a master


def check_master(master: str) -> None:
    """See that a master is one that Spark knows and, where it is a server, that it answers; "" is the submit's.

    Raises:
        UsageError: no such kind of master, or no port.
        TransientError: nobody answers at any of its addresses, within 5 s each.
    """
    if not master:
        return
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master!r}: Spark knows no such master",
            hint="local[*], spark://HOST:7077, yarn, k8s://HOST:PORT, or sc://HOST:15002 for Spark Connect",
        )
    scheme, _, rest = master.partition("://")
    if scheme not in _USUAL_PORT:
        return
    troubles = []
    for address in rest.partition("/")[0].partition(";")[0].split(","):
        host, port = _address(master, address, _USUAL_PORT[scheme])
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            troubles.append(f"{host}:{port}: {error.strerror or error}")
        else:
            _log.debug("a Spark master answers at %s:%d", host, port)
            return
    raise TransientError(
        f"--master {master}: nobody answers: {'; '.join(troubles)}",
        hint="start the Spark master, or leave --master out to run on this host",
    )


def _address(master: str, address: str, usual: int | None) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon and usual is not None:
        return address, usual
    if not (host and port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"--master {master!r}: {address!r} is no HOST:PORT", hint="write it as spark://HOST:7077")
    return host.strip("[]"), int(port)


def check_spark(release: str) -> None:
    """Refuse a Spark release that is older than 4.1, given as `4.1.4` (UsageError)."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if numbers and (int(numbers[1]), int(numbers[2])) < _OLDEST_SPARK:
        raise UsageError(f"Spark is {release}: tiersnap needs Spark 4.1 or 4.2", hint=with_extra("spark"))


# What spark-submit takes itself, so that it prepares for that master; both have a value.
_OF_SUBMIT = ("--master", "--spark-conf")
_FLAG = "--print-submit"


def submit_line(
    main: Path, words: Sequence[str], master: str | None, conf: Mapping[str, str], *, config: Path | None = None
) -> str:
    """Return one line for a shell: `words` go to the file `main`, but for what spark-submit takes itself.

    Args:
        words: of the command line after the command's name.
        master, conf: as settled from the words, the environment and the file of settings.
        config: the file of settings; it goes as TIERSNAP_CONFIG, which the driver reads where spark-submit is called.

    Raises:
        MissingExtraError: pyspark or delta-spark is not installed, so that nobody knows their versions.
    """
    try:
        name, revision = delta_jars.artifact()
    except PackageNotFoundError as error:
        raise MissingExtraError(
            f"{_FLAG} names the jar that goes with pyspark and delta-spark: {error.name} is not installed",
            hint=with_extra("spark"),
        ) from error
    environment = [] if config is None else [f"TIERSNAP_CONFIG={shlex.quote(str(config))}"]
    command = [
        "spark-submit",
        *([] if master is None else ["--master", master]),
        *("--packages", f"io.delta:{name}:{revision}"),
        *(word for setting in conf.items() for word in ("--conf", "=".join(setting))),
        str(main),
        *_of_main(words),
    ]
    return " ".join([*environment, shlex.join(command)])


def _of_main(words: Iterable[str]) -> Iterator[str]:
    left = iter(words)
    for word in left:
        if word in _OF_SUBMIT:
            next(left, None)
        elif word != _FLAG and not word.startswith(tuple(f"{name}=" for name in _OF_SUBMIT)):
            yield word
