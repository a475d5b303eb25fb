"""The Spark session of a command: the one that is there, the one that a submit asked for, or one of this host's own.

Settings of tiersnap (conf/spark-defaults.conf) are for sessions that are made here. What a submit says of its master,
and everything of a session that is there, stays as it is.

Failures of Spark become our errors: a sentence and an exit code, no traceback.
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
    """Return the text of an error of Spark's, "" for any other; sockets of a JVM that has ended raise Python's own."""
    if isinstance(error, ConnectionError):
        return f"Py4JNetworkError: {error}"
    if not type(error).__module__.startswith(_THEIRS):
        return ""
    return f"{type(error).__name__}: {error}"


@contextmanager
def spoken(what: str) -> Iterator[None]:
    """Raise what Spark's classes say within as ours, where it is known; `what` is the subject of the message.

    Raises:
        TiersnapError: the one that `snapshot.tables.known_failures` has for the words.
    """
    try:
        yield
    except Exception as error:
        told = _said(error)
        known = of_words(what, told) if told else None
        if known is None:
            raise
        # A notebook shows what an error came from: hundreds of lines of two languages.
        _log.debug("%s: Spark said: %s", what, told)
        raise known from None


# The work is done in Python; a JVM that only hands out tasks starts sooner with the quick compiler alone. Java gives
# that one 48 MB for its code. A run fills them, and then the JVM discards code and compiles it again all the time.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
QUICK_START = f"{QUICK_COMPILER} -XX:+UseSerialGC"
# An audit sorts and compares in the JVM.
LONG_WORK = "-XX:+UseParallelGC"
# Set by spark-submit for the Python that it starts.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def defaults() -> dict[str, str]:
    """The settings of conf/spark-defaults.conf."""
    text = resources.files("tiersnap.conf").joinpath("spark-defaults.conf").read_text(encoding="utf-8")
    settings = {}
    for line in text.splitlines():
        words = line.split("#", 1)[0].split(None, 1)
        if words:
            settings[words[0]] = words[1].strip()
    return settings


def parse_conf(spark_conf: tuple[str, ...]) -> dict[str, str]:
    """Return --spark-conf NAME=VALUE as settings; UsageError for another word."""
    conf = {}
    for setting in spark_conf:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--spark-conf {setting!r}: expected NAME=VALUE")
        conf[name] = value
    return conf


def open_session(master: str | None, conf: Mapping[str, str], *, java_options: str = QUICK_START) -> SparkSession:
    """Return the active session, or make one.

    Args:
        master: None for that of the active session or of spark-submit, else this host.
        conf: settings over the defaults.
        java_options: of a JVM that is started here, where `conf` has none.

    Raises:
        MissingExtraError: pyspark is not installed, there is no Java 17, or Delta's jars cannot be fetched.
        UsageError: Spark is older than 4.1, or knows no such master.
        TransientError: the master does not answer.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError(
            "this command runs on Spark, and pyspark is not installed",
            hint=f"{with_extra('spark')}; one host needs none: tiersnap tier LOGDIR --remote URI",
        )
    import pyspark
    from pyspark.sql import SparkSession

    check_spark(pyspark.__version__)
    active = SparkSession.getActiveSession()
    if active is not None:
        _log.debug("the active Spark session is taken")
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
    check_spark(session.version)  # a Connect server has its own
    return session


def is_on_server(conf: Mapping[str, str]) -> bool:
    """Return whether a session with these settings is one of a Connect server, which may see other files than we."""
    return conf.get("spark.master", "").startswith("sc://") or "SPARK_REMOTE" in os.environ


def _settings(conf: Mapping[str, str], java_options: str) -> dict[str, str]:
    """Return all settings of a session: of a Connect server, of a submit's JVM, or of one that starts here."""
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
    """Return the defaults of a session that starts here.

    Spark makes the folder of its default database, `spark-warehouse` in the working directory, unless it exists. No
    table of tiersnap is in there.
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
            # Otherwise the driver binds to whatever the host's name resolves to, which a laptop's VPN may not answer.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            # Workers would take the first python3 on the path, which has none of our packages; on a cluster that is for
            # spark.pyspark.python or the archive to say, which the environment of the driver would win over.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if python := settings.get("spark.pyspark.python"):
            # Of the settings spark-submit alone takes it; PySpark looks at the environment.
            os.environ["PYSPARK_PYTHON"] = python
    for name, value in settings.items():
        builder = builder.config(name, value)
    _log.debug("starting a Spark session, master %r", master)
    return builder.getOrCreate()


def with_delta(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with Delta's jars: the driver has the files, and executors fetch them from it.

    MissingExtraError if the jars are not here and cannot be fetched.
    """
    if delta_jars.are_named(settings):
        return settings
    jars, added = delta_jars.jars_for_session(), dict(settings)
    for name, separator in (("spark.jars", ","), ("spark.driver.extraClassPath", ":")):
        given = [settings[name]] if settings.get(name) else []
        added[name] = separator.join([*jars, *given])
    return added


def local_settings(conf: Mapping[str, str], java_options: str) -> dict[str, str]:
    """Return all settings of a session of this host, whose JVM is started here; see `with_delta`."""
    settings = with_delta({**_own_defaults(), **conf})
    log4j = resources.files("tiersnap.conf").joinpath("log4j2.properties")
    options = settings.get("spark.driver.extraJavaOptions", "") or java_options
    settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log4j} {options}"
    settings.setdefault("spark.sql.shuffle.partitions", str(4 * (os.cpu_count() or 1)))
    # On a cluster the workers' Python may lack this package when their daemon starts.
    settings.setdefault("spark.python.daemon.module", "tiersnap.jobs.pipeline.worker_daemon")
    return settings


@contextmanager
def _java_writes_to_stderr() -> Iterator[None]:
    """A JVM that is started meanwhile has our stderr as its stdout: Delta Lake prints what a vacuum deleted."""
    try:
        stdout = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them was closed by whoever started us
        yield
        return
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM, while Spark starts, count when it has started.

    Interrupted in between, PySpark leaves a JVM behind that waits for ever. Its own handler, which is replaced, cancels
    the jobs, whose failure then hides that it was Ctrl-C.
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
