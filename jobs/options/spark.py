"""Options of the commands that run on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING

import click

from tiersnap.jobs.options.together import with_options
from tiersnap.jobs.pipeline.session import QUICK_START, open_session, parse_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkRequest:
    """Which session is wanted.

    Attributes:
        master: None for that of the session that is there, of the submit, or else this host.
        conf: settings over those of conf/spark-defaults.conf.
    """

    master: str | None
    conf: Mapping[str, str]

    def session(self, *, java_options: str = QUICK_START) -> SparkSession:
        """The active session, or one that is made; see `open_session`."""
        return open_session(self.master, self.conf, java_options=java_options)


def spark_options(command: Callable[..., object]) -> Callable[..., object]:
    """--master and --spark-conf, given to the command as `spark: SparkRequest`."""

    @wraps(command)
    def with_spark(*args: object, master: str | None, spark_conf: tuple[str, ...], **kwargs: object) -> object:
        return command(*args, spark=SparkRequest(master, parse_conf(spark_conf)), **kwargs)

    options = (
        click.option(
            "--master",
            help="Spark master: spark://…, yarn, k8s://…, or sc://… for Spark Connect. By default that of the submit "
            "or of the session that is there, else this host.",
        ),
        click.option(
            "--spark-conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting, over conf/spark-defaults.conf."
        ),
    )
    return with_options(with_spark, options)
