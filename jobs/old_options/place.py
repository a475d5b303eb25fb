"""Commands that take log directories of this host or, instead, a warehouse."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.core import ParameterSource

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.places import located

warehouse_option = click.option(
    "--warehouse", metavar="URI", help="Instead of LOGDIR: all partitions of the tables that `run` keeps; on Spark."
)


def warehouse_of(ctx: click.Context, argument: str, log_dirs: Sequence[str], warehouse: str | None) -> str | None:
    """The warehouse where one is meant, None where the log directories are.

    What stands on the command line wins over the environment and over a file of settings, and else LOGDIR does.

    Args:
        argument: the name of the argument that took `log_dirs`.

    Raises:
        UsageError: both were given, or neither.
    """
    typed = [name for name in (argument, "warehouse") if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    hint = "give log directories of this host, or --warehouse for what run has read"
    if len(typed) == 2:
        raise UsageError("LOGDIR and --warehouse are two ways to say where the logs are", hint=hint)
    if not log_dirs and not warehouse:
        raise UsageError("neither LOGDIR nor --warehouse was given", hint=hint)
    is_meant = "warehouse" in typed or not log_dirs
    return located(warehouse) if warehouse and is_meant else None
