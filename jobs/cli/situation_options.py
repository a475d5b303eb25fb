"""The options that give a command its situation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.option_types import once
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.situation.situation import Given, Situation, gather
from tiersnap.remote_storage.stores.store_settings import StoreSettings

server_properties_option = once(
    "--server-properties",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Settings of a stopped broker, or of one in a container: log.dirs, listeners and the remote location.",
)
layout_option = click.option(
    "--layout",
    type=click.Choice(opt.LAYOUTS),
    help="The object keys of remote segments: of the Aiven plugin, or of Kafka's LocalTieredStorage.  "
    "[default: of the brokers' storage manager, else aiven]",
)
OF_REMOTE = "Remote location: s3://bucket/prefix, or a directory.  [default: the location of this host's broker]"
OF_CLUSTER = "A broker of the cluster.  [default: the broker of this host]"

PROC = Path("/proc")


def _log_dirs(log_dirs: tuple[str, ...], server_properties: Path | None) -> tuple[str, ...]:
    found = gather(Given(log_dirs, server_properties, None, None, StoreSettings(), None, PROC, is_cluster_wanted=False))
    _tell(found, "log directories")
    return found.log_dirs.require("log directories")


def _tell(found: Situation, *names: str) -> None:
    click.get_current_context().ensure_object(Output).talk(*found.lines(*names))


# Given to the command as `log_dirs: tuple[str, ...]`, of the command line or of a broker.
log_dirs_options = opt.as_one("log_dirs", _log_dirs, opt.log_dirs_argument(required=False), server_properties_option)


def situation_options(
    remote_help: str = OF_REMOTE,
    cluster_help: str | None = OF_CLUSTER,
    option: Callable[..., opt.Option] = click.option,
    *,
    is_told: bool = True,
) -> opt.Option:
    """Return the options of all facts, passed to the command as `situation: Situation`.

    Args:
        cluster_help: None if the command uses no cluster.
        option: creates --remote and --bootstrap-server.
        is_told: print a line on stderr for each fact that was found; else the command reports them itself.
    """

    def make(
        log_dirs: tuple[str, ...],
        server_properties: Path | None,
        remote: str | None,
        layout: str | None,
        stores: opt.StoreSettings,
        cluster: opt.Cluster | None = None,
    ) -> Situation:
        is_asked = cluster_help is not None
        found = gather(Given(log_dirs, server_properties, remote, layout, stores, cluster, PROC, is_asked))
        if is_told:
            _tell(found)
        return found

    return opt.as_one(
        "situation",
        make,
        opt.log_dirs_argument(required=False),
        server_properties_option,
        option("--remote", help=remote_help),
        layout_option,
        opt.store_options,
        *(() if cluster_help is None else (opt.cluster_options(cluster_help, option=option),)),
    )
