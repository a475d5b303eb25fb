"""Options of the commands that run on Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import click

from tiersnap.jobs.options.together import with_options
from tiersnap.jobs.session import parse_conf


def spark_options(command: Callable[..., object]) -> Callable[..., object]:
    """--master and --spark-conf, given to the command as `master: str | None` and `conf: dict[str, str]`."""

    @wraps(command)
    def with_conf(*args: object, spark_conf: tuple[str, ...], **kwargs: object) -> object:
        return command(*args, conf=parse_conf(spark_conf), **kwargs)

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
    return with_options(with_conf, options)
