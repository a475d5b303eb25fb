"""The Spark session of a job: settings from conf/spark-defaults.conf, Delta's jars from a local folder."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING

from tiersnap.jobs import class_archive, delta_jars
from tiersnap.jobs.engine import Engine, LazyEngine
from tiersnap.snapshot.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The work is done in Python; a JVM that only hands out tasks starts sooner with the quick compiler alone.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def defaults() -> dict[str, str]:
    """The settings of conf/spark-defaults.conf."""
    text = resources.files("conf").joinpath("spark-defaults.conf").read_text(encoding="utf-8")
    settings = {}
    for line in text.splitlines():
        words = line.split("#", 1)[0].split(None, 1)
        if words:
            settings[words[0]] = words[1].strip()
    return settings


def build(*, app_name: str, conf: Mapping[str, str], with_delta: bool = True) -> SparkSession:
    """A session; `conf` wins over the defaults. `with_delta` loads Delta's jars where they are installed.

    Raises:
        MissingExtraError: pyspark is not installed.
    """
    _prepare(conf)
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise _no_pyspark() from error
    builder = SparkSession.builder.appName(app_name)
    for name, value in _settings(conf, delta_jars.jars() if with_delta else []).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _is_local(conf: Mapping[str, str]) -> bool:
    return conf.get("spark.master", "local").startswith("local")


def _prepare(conf: Mapping[str, str]) -> None:
    """The environment of a session on this host."""
    if _is_local(conf):
        # Otherwise the driver binds to whatever the host's name resolves to, which a laptop's VPN may not answer.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers would take the first python3 on the path, which has none of our packages; on a cluster that is for
        # spark.pyspark.python or the archive to say.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _settings(conf: Mapping[str, str], jars: list[str]) -> dict[str, str]:
    settings = {**defaults(), **conf}
    log4j = resources.files("conf").joinpath("log4j2.properties")
    java_options = settings.get("spark.driver.extraJavaOptions", "")
    if _is_local(conf) and not java_options:
        java_options = QUICK_START
        if not jars:
            java_options = f"{java_options} {class_archive.java_options()}"
    settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log4j} {java_options}".strip()
    if jars:
        settings.setdefault("spark.jars", ",".join(jars))
        settings.setdefault("spark.driver.extraClassPath", ":".join(jars))
    else:
        settings.pop("spark.sql.extensions", None)
        settings.pop("spark.sql.catalog.spark_catalog", None)
    return settings


def spark_engine(master: str, spark_conf: tuple[str, ...]) -> Engine:
    """The engine of `tiersnap run` and its kin: on the session that is there, or on one made when it is needed.

    Raises:
        MissingExtraError: pyspark is not installed.
        UsageError: a --spark-conf is not NAME=VALUE.
    """
    conf = {}
    for setting in spark_conf:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--spark-conf {setting!r}: expected NAME=VALUE")
        conf[name] = value
    if importlib.util.find_spec("pyspark") is None:
        raise _no_pyspark()

    def make() -> Engine:
        from pyspark import SparkConf, SparkContext

        from tiersnap.snapshot.spark.engine import SparkEngine

        # The tables are read and committed by delta-rs, and tasks need no SQL, which takes seconds to get ready.
        wanted = {"spark.master": master, **conf}
        if re.fullmatch(r"local(\[.*\])?", master) and "spark.submit.pyFiles" not in conf:
            # Elsewhere the package may reach the workers after their daemon has started.
            wanted.setdefault("spark.python.daemon.module", "tiersnap.snapshot.spark.daemon")
        _prepare(wanted)
        settings = SparkConf().setAppName("tiersnap").setAll(list(_settings(wanted, []).items()))
        with _interrupts_later():
            context = SparkContext.getOrCreate(settings)
        return SparkEngine(context)

    return make() if _has_session() else LazyEngine(make)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C while Spark starts counts when it has started.

    Interrupted in between, PySpark leaves a JVM behind that waits for ever. Its own handler, which is replaced, cancels
    the jobs, whose failure then hides that it was Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


def _has_session() -> bool:
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _no_pyspark() -> MissingExtraError:
    return MissingExtraError(
        "this command runs on Spark, and pyspark is not installed",
        hint="pip install 'tiersnap[spark]', or use --engine local",
    )
