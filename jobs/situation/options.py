"""The options that give a command its situation."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from tiersnap.jobs import options as opt
from tiersnap.jobs.option_types import once
from tiersnap.jobs.situation.situation import Given, Situation, gather

server_properties_option = once(
    "--server-properties",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Settings of a broker that does not run, or that runs in a container: log.dirs, listeners and the remote "
    "location.",
)

PROC = Path("/proc")


def situation_options(remote_help: str, cluster_help: str) -> opt.Option:
    """Return the options of all facts, given to the command as `situation: Situation`."""

    def make(
        log_dirs: tuple[str, ...],
        server_properties: Path | None,
        view: opt.RemoteView,
        cluster: opt.Cluster | None,
    ) -> Situation:
        source = click.get_current_context().get_parameter_source("layout")
        layout = None if source is ParameterSource.DEFAULT else view.layout
        return gather(Given(log_dirs, server_properties, view.remote, layout, view.s3, cluster, PROC))

    return opt.as_one(
        "situation",
        make,
        opt.log_dirs_argument(required=False),
        server_properties_option,
        opt.remote_view_options(remote_help),
        opt.cluster_options(cluster_help, option=once),
    )
