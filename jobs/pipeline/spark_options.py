"""The options --master and --spark-conf of a command that uses Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tiersnap.jobs.cli import options as opt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkRequest:
    """The Spark session that the options request."""

    master: str | None  # None for the master of the active session or of spark-submit; without these, this host
    conf: Mapping[str, str]  # overrides conf/spark-defaults.conf

    def session(self, **options: str) -> SparkSession:
        """Return the active session, or a new one; see `open_session`."""
        from tiersnap.jobs.pipeline.session import open_session

        return open_session(self.master, self.conf, **options)

    @property
    def is_on_server(self) -> bool:
        """Return whether the options name a Spark Connect server, which may lack the files of this host."""
        from tiersnap.jobs.pipeline.session import is_on_server

        conf = dict(self.conf)
        if self.master is not None:
            conf["spark.master"] = self.master
        return is_on_server(conf)


def _spark(master: str | None, spark_conf: tuple[str, ...]) -> SparkRequest:
    from tiersnap.jobs.pipeline.session import parse_conf

    return SparkRequest(master, parse_conf(spark_conf))


# The command gets the argument `spark: SparkRequest`.
spark_options = opt.as_one(
    "spark",
    _spark,
    click.option(
        "--master",
        help="Spark master: spark://…, yarn, k8s://…, or sc://… for Spark Connect.  [default: the master of the "
        "active session or of spark-submit, else this host]",
    ),
    click.option(
        "--spark-conf",
        multiple=True,
        metavar="NAME=VALUE",
        help="Spark setting, which overrides conf/spark-defaults.conf.",
    ),
)
