"""The options from which a command builds its `Situation` (jobs/situation)."""

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
    help="server.properties of a stopped or containerized broker, for log.dirs, listeners and the remote location.",
)
layout_option = click.option(
    "--layout",
    type=click.Choice(opt.LAYOUTS),
    help="Layout of object keys: aiven for Aiven's plugin, or local-tiered-storage for Kafka's LocalTieredStorage.  "
    "[default: the layout that the brokers' settings name, else aiven]",
)
OF_REMOTE = "Remote location: s3://bucket/prefix, or a directory.  [default: the location of this host's broker]"
OF_CLUSTER = "Broker of the cluster.  [default: the broker of this host]"

PROC = Path("/proc")


def _log_dirs(log_dirs: tuple[str, ...], server_properties: Path | None) -> tuple[str, ...]:
    found = gather(Given(log_dirs, server_properties, None, None, StoreSettings(), None, PROC, is_cluster_wanted=False))
    _tell(found, "log directories")
    return found.log_dirs.require("log directories")


def _tell(found: Situation, *names: str) -> None:
    click.get_current_context().ensure_object(Output).talk(*found.lines(*names))


# The command receives `log_dirs: tuple[str, ...]`, from the command line or from a broker's settings.
log_dirs_options = opt.as_one("log_dirs", _log_dirs, opt.log_dirs_argument(required=False), server_properties_option)


def situation_options(
    remote_help: str = OF_REMOTE,
    cluster_help: str | None = OF_CLUSTER,
    option: Callable[..., opt.Option] = click.option,
    *,
    prints_facts: bool = True,
) -> opt.Option:
    """Return the options of a situation. The command receives them as `situation: Situation`.

    Args:
        remote_help: help of --remote.
        cluster_help: help of --bootstrap-server; None if the command uses no cluster.
        option: the function that makes --remote and --bootstrap-server, `click.option` or `once`.
        prints_facts: print each found fact on stderr. False if the body of the command prints the facts.
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
        if prints_facts:
            _tell(found)
        return found

    options: list[opt.Option] = [
        opt.log_dirs_argument(required=False),
        server_properties_option,
        option("--remote", help=remote_help),
        layout_option,
        opt.store_options,
    ]
    if cluster_help is not None:
        options.append(opt.cluster_options(cluster_help, option=option))
    return opt.as_one("situation", make, *options)
