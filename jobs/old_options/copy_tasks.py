"""Options of the commands that a cluster may tell what its brokers copy by themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps

from tiersnap.jobs.old_options.cluster import optional_client_options
from tiersnap.jobs.old_options.remote import leave_to_broker_option
from tiersnap.jobs.output import Output
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.snapshot.log.selection import NamedLogDir
from tiersnap.snapshot.readiness.copy_task import ClusterAnswer


@dataclass(frozen=True)
class ToldBy:
    """Who says whether a broker is at work.

    Attributes:
        cluster: that is asked; None if none is.
        left_for: ms since a broker's upload, for which segments are left to it where no cluster says better; None
            leaves none.
    """

    cluster: Cluster | None
    left_for: int | None = None

    def about(self, log_dirs: Iterable[NamedLogDir], topic: re.Pattern[str] | None, output: Output) -> ClusterAnswer:
        """Return what the cluster says, without one nothing; see ask_about_log_dirs."""
        if self.cluster is None:
            return ClusterAnswer()
        # Most calls ask none, and need not wait for its modules.
        from tiersnap.remote_storage.cluster.copy_tasks import ask_about_log_dirs

        return ask_about_log_dirs(self.cluster, log_dirs, topic, talk=output.talk)


def tiering_cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    """Those of a command that leaves segments to brokers that are at work, given as `told_by: ToldBy`."""
    text = "A broker of the cluster: it says whose copy task works, instead of what lies in remote storage."
    return leave_to_broker_option(optional_client_options(_with_told_by(command), text))


def scanning_cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    """Those of a command that says what brokers copy by themselves, and when, given as `told_by: ToldBy`."""
    text = "A broker of the cluster: it says which segments brokers copy by themselves, and when."
    return optional_client_options(_with_told_by(command), text)


def _with_told_by(command: Callable[..., object]) -> Callable[..., object]:
    @wraps(command)
    def with_told_by(*args: object, cluster: Cluster | None, left_for: int | None = None, **kwargs: object) -> object:
        return command(*args, told_by=ToldBy(cluster, left_for), **kwargs)

    return with_told_by
