"""The options of the Spark session that a command runs on."""

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
    """The Spark session that is wanted: `conf` is over conf/spark-defaults.conf.

    `master` is None for that of the session that is there, of the submit, or else this host.
    """

    master: str | None
    conf: Mapping[str, str]

    def session(self, **options: str) -> SparkSession:
        """Return the active session, or a new one; see `open_session`."""
        from tiersnap.jobs.pipeline.session import open_session

        return open_session(self.master, self.conf, **options)

    @property
    def is_on_server(self) -> bool:
        """Return whether a Connect server is asked for, which may see other files than this host."""
        from tiersnap.jobs.pipeline.session import is_on_server

        return is_on_server({**self.conf, **({} if self.master is None else {"spark.master": self.master})})


def _spark(master: str | None, spark_conf: tuple[str, ...]) -> SparkRequest:
    from tiersnap.jobs.pipeline.session import parse_conf

    return SparkRequest(master, parse_conf(spark_conf))


# Given to the command as `spark: SparkRequest`.
spark_options = opt.as_one(
    "spark",
    _spark,
    click.option(
        "--master",
        help="Spark master: spark://…, yarn, k8s://…, or sc://… for Spark Connect. By default that of the submit "
        "or of the session that is there, else this host.",
    ),
    click.option(
        "--spark-conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting, over conf/spark-defaults.conf."
    ),
)
