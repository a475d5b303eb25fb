"""The Spark session of a command: the active one, the one of spark-submit, or a new one on this host.

conf/spark-defaults.conf does not change an active session. A session of spark-submit takes these settings, but keeps
its master.

Failures of Spark are raised as TiersnapError, with one sentence and an exit code instead of a traceback.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tiersnap.jobs.pipeline import class_archive, delta_jars
from tiersnap.jobs.pipeline.java import check_java
from tiersnap.jobs.pipeline.spark_start import check_master, check_spark
from tiersnap.snapshot.errors import MissingExtraError, UsageError
from tiersnap.snapshot.installed import with_extra
from tiersnap.snapshot.tables.reader_errors import of_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_THEIRS = ("pyspark", "py4j", "grpc")


def _said(error: Exception) -> str:
    """Return the text of an error from Spark; an empty string for other errors.

    A ConnectionError counts as an error from Spark: Python raises it if the JVM at the other end has ended.
    """
    if isinstance(error, ConnectionError):
        return f"Py4JNetworkError: {error}"
    if not type(error).__module__.startswith(_THEIRS):
        return ""
    return f"{type(error).__name__}: {error}"


@contextmanager
def spoken(what: str) -> Iterator[None]:
    """Convert Spark's errors in the block to TiersnapError if `snapshot.tables.known_failures` knows their text.

    Args:
        what: subject of the error message.

    Raises:
        TiersnapError: the known failure. Other errors are raised unchanged.
    """
    try:
        yield
    except Exception as error:
        told = _said(error)
        known = of_words(what, told) if told else None
        if known is None:
            raise
        # "from None": a notebook would print Spark's own traceback, hundreds of lines of Python and Java.
        _log.debug("%s: Spark said: %s", what, told)
        raise known from None


# Python does the work. The JVM schedules tasks only, and starts faster with the C1 compiler. Java's default code cache
# for C1 alone is 48 MB. A run fills it, and the JVM would then discard and recompile code all the time.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
QUICK_START = f"{QUICK_COMPILER} -XX:+UseSerialGC"
# An audit sorts and compares in the JVM, so it uses all compilers.
LONG_WORK = "-XX:+UseParallelGC"
# spark-submit sets this variable for the Python process that it starts.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def defaults() -> dict[str, str]:
    """Return the settings of conf/spark-defaults.conf."""
    text = resources.files("tiersnap.conf").joinpath("spark-defaults.conf").read_text(encoding="utf-8")
    settings = {}
    for line in text.splitlines():
        words = line.split("#", 1)[0].split(None, 1)
        if words:
            settings[words[0]] = words[1].strip()
    return settings


def parse_conf(spark_conf: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of --spark-conf NAME=VALUE; UsageError if a value has no `=`."""
    conf = {}
    for setting in spark_conf:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--spark-conf {setting!r}: expected NAME=VALUE")
        conf[name] = value
    return conf


def open_session(master: str | None, conf: Mapping[str, str], *, java_options: str = QUICK_START) -> SparkSession:
    """Return the active session, or create one.

    Args:
        master: master of a new session. If None, the master is the first that is set of `conf`, spark-submit and
            SPARK_REMOTE, or else `local[*]`.
        conf: settings that override the defaults.
        java_options: options of a new JVM, used if `conf` has no Java options.

    Raises:
        MissingExtraError: pyspark is not installed, Java 17 is missing, or Delta's jars cannot be fetched.
        UsageError: Spark is older than 4.1, or does not know the master.
        TransientError: the master does not answer.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError(
            "this command runs on Spark, but the Python package pyspark is not installed",
            hint=f"{with_extra('spark')}; or upload from one host, without Spark: tiersnap tier LOGDIR --remote URI",
        )
    import pyspark
    from pyspark.sql import SparkSession

    check_spark(pyspark.__version__)
    active = SparkSession.getActiveSession()
    if active is not None:
        _log.debug("using the active Spark session")
        return active
    wanted = dict(conf)
    if master is not None:
        wanted["spark.master"] = master
    elif _SUBMITTED not in os.environ and "SPARK_REMOTE" not in os.environ:
        wanted.setdefault("spark.master", "local[*]")
    check_master(wanted.get("spark.master", ""))
    settings = _settings(wanted, java_options)
    with _interrupts_later(), spoken("Spark"), _java_writes_to_stderr():
        session = _build(settings)
    check_spark(session.version)  # a Connect server may have another version
    return session


def is_on_server(conf: Mapping[str, str]) -> bool:
    """Return whether these settings name a Spark Connect server. Such a server may lack the files of this host."""
    return conf.get("spark.master", "").startswith("sc://") or "SPARK_REMOTE" in os.environ


def _settings(conf: Mapping[str, str], java_options: str) -> dict[str, str]:
    """Return all settings for a session on a Connect server, in the JVM of spark-submit, or in a new JVM."""
    if is_on_server(conf):
        # A Connect server has its own settings, so send only the given ones.
        return dict(conf)
    if _SUBMITTED in os.environ:
        return {**defaults(), **conf}
    check_java()
    if conf.get("spark.master", "").startswith("local"):
        return local_settings(conf, f"{java_options} {class_archive.options()}")
    return with_delta({**_own_defaults(), **conf})


def _own_defaults() -> dict[str, str]:
    """Return the defaults of a session that starts on this host.

    Without spark.sql.warehouse.dir Spark would create an empty folder `spark-warehouse` in the working directory.
    """
    return {**defaults(), "spark.sql.warehouse.dir": Path(tempfile.gettempdir()).as_uri()}


def _build(settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    master = settings.get("spark.master", "")
    builder = SparkSession.builder.appName("tiersnap")
    if is_on_server(settings):
        builder = builder.remote(settings.pop("spark.master", "") or os.environ["SPARK_REMOTE"])
    else:
        if master.startswith("local"):
            # The driver would bind to the address of the host's name, which a laptop's VPN may block.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            # Workers would use the first python3 on the PATH, which lacks our packages. Set it for a local master only:
            # on a cluster this variable would override spark.pyspark.python and the shipped archive.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if python := settings.get("spark.pyspark.python"):
            # Only spark-submit reads this setting; PySpark reads the variable.
            os.environ["PYSPARK_PYTHON"] = python
    for name, value in settings.items():
        builder = builder.config(name, value)
    _log.debug("starting a Spark session, master %r", master)
    return builder.getOrCreate()


def with_delta(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with Delta's jars. Executors fetch the jars from the driver.

    Raises:
        MissingExtraError: this host has no jars, and cannot fetch them.
    """
    if delta_jars.are_named(settings):
        return settings
    jars, added = delta_jars.jars_for_session(), dict(settings)
    for name, separator in (("spark.jars", ","), ("spark.driver.extraClassPath", ":")):
        added[name] = separator.join(filter(None, [*jars, settings.get(name)]))
    return added


def local_settings(conf: Mapping[str, str], java_options: str) -> dict[str, str]:
    """Return all settings of a session with a local master. `with_delta` may raise MissingExtraError."""
    settings = with_delta({**_own_defaults(), **conf})
    log4j = resources.files("tiersnap.conf").joinpath("log4j2.properties")
    options = settings.get("spark.driver.extraJavaOptions", "") or java_options
    settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log4j} {options}"
    settings.setdefault("spark.sql.shuffle.partitions", str(4 * (os.cpu_count() or 1)))
    # Set the daemon for a local master only: on a cluster the workers' Python may lack this package.
    settings.setdefault("spark.python.daemon.module", "tiersnap.jobs.pipeline.worker_daemon")
    return settings


@contextmanager
def _java_writes_to_stderr() -> Iterator[None]:
    """Redirect the stdout of a JVM that starts in this block to our stderr, because Delta Lake prints to stdout."""
    try:
        stdout = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # the parent process closed stdout or stderr
        yield
        return
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until Spark has started.

    An interrupt during the start would leave a JVM that waits forever. When the block ends, the earlier handlers are
    restored. They also replace the handler that PySpark installed in the block. PySpark's handler would cancel jobs,
    and the failure of a cancelled job would hide the interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda number, _: came.append(number)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if came:
        signal.raise_signal(came[0])
