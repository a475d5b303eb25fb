"""Checks of Spark's version and master before a JVM starts.

Spark itself waits more than a minute for a master that does not answer.
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
_USUAL_PORT = {"spark": None, "sc": 15002}  # None: Spark requires a port in spark:// URLs


def check_master(master: str) -> None:
    """Check that Spark supports the master, and that a spark:// or sc:// server accepts a connection.

    Args:
        master: Spark's master URL; an empty string is not checked.

    Raises:
        UsageError: Spark has no such kind of master, or the port is missing.
        TransientError: no address of the master accepts a connection within 5 s.
    """
    if not master:
        return
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master!r}: not a master that Spark knows",
            hint="use local[*], spark://HOST:7077, yarn, k8s://HOST:PORT, or sc://HOST:15002 for Spark Connect",
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
        f"--master {master}: no Spark master answers: {'; '.join(troubles)}",
        hint="start the Spark master; or run on this host: the same command without --master",
    )


def _address(master: str, address: str, usual: int | None) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon and usual is not None:
        return address, usual
    if not (host and port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"--master {master!r}: {address!r} is not HOST:PORT", hint="--master spark://HOST:7077")
    return host.strip("[]"), int(port)


def check_spark(release: str) -> None:
    """Raise UsageError if a Spark release, such as `4.1.4`, is older than 4.1."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if numbers and (int(numbers[1]), int(numbers[2])) < _OLDEST_SPARK:
        raise UsageError(
            f"the installed Spark is {release}, but tiersnap needs Spark 4.1 or 4.2", hint=with_extra("spark")
        )


# tiersnap's options that `submit_line` replaces by options of spark-submit. Each takes a value.
_OF_SUBMIT = ("--master", "--spark-conf")
_FLAG = "--print-submit"


def submit_line(
    main: Path, words: Sequence[str], master: str | None, conf: Mapping[str, str], *, config: Path | None = None
) -> str:
    """Return the spark-submit command of a tiersnap command, as one line for a shell.

    Args:
        main: the Python file to submit.
        words: words of the command line after the command's name.
        master: value of --master, from the command line, the environment or the file of settings.
        conf: settings of --spark-conf, from the same sources.
        config: the file of settings. The line sets TIERSNAP_CONFIG to it, because the driver reads that variable.

    Raises:
        MissingExtraError: pyspark or delta-spark is not installed, so their versions are unknown.
    """
    try:
        name, revision = delta_jars.artifact()
    except PackageNotFoundError as error:
        raise MissingExtraError(
            f"{_FLAG} needs the versions of pyspark and delta-spark, but {error.name} is not installed",
            hint=with_extra("spark"),
        ) from error
    command = ["spark-submit"]
    if master is not None:
        command += ["--master", master]
    command += ["--packages", f"io.delta:{name}:{revision}"]
    for setting in conf.items():
        command += ["--conf", "=".join(setting)]
    line = shlex.join([*command, str(main), *_of_main(words)])
    if config is None:
        return line
    return f"TIERSNAP_CONFIG={shlex.quote(str(config))} {line}"


def _of_main(words: Iterable[str]) -> Iterator[str]:
    left = iter(words)
    for word in left:
        if word in _OF_SUBMIT:
            next(left, None)
        elif word != _FLAG and not word.startswith(tuple(f"{name}=" for name in _OF_SUBMIT)):
            yield word
