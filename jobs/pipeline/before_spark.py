"""Check a run's input before Spark starts, which takes seconds: its sources, its store, and the leaders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tiersnap.jobs.pipeline.discover import Discovered, discover
from tiersnap.jobs.pipeline.leaders import leading_replicas
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.copy_tasks import ask_copy_tasks, check_cluster
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.probe import check_conditions, check_lists
from tiersnap.snapshot.log.log_dir import split_folder_name
from tiersnap.snapshot.log.places import resolve
from tiersnap.snapshot.readiness.copy_task import CopyTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[], "SparkSession"]


def started(spark: SparkSession | Session) -> SparkSession:
    """Return the session; start it first if a function is given."""
    return spark() if callable(spark) else spark


def lacks_table(warehouse: str, table: str) -> bool:
    """Return whether a warehouse on this host has no such table; of another place Spark has to be asked."""
    filesystem, path = resolve(warehouse) if warehouse.startswith(("/", "file:")) else (None, "")
    return filesystem is not None and filesystem.is_local and not Path(path, table, "_delta_log").is_dir()


@dataclass(frozen=True)
class RunInput:
    """The input of a run.

    Attributes:
        found: partition folders of the sources.
        store: remote storage, which answered.
        leaders: rows of LEADERS, None where no cluster has to be asked.
        copy_tasks: what a cluster says of them, None where none is asked.
    """

    found: Discovered
    store: ObjectStore
    leaders: pa.Table | None = None
    copy_tasks: CopyTasks | None = None

    @property
    def topics(self) -> set[str]:
        """Names of the topics that the sources hold."""
        return {folder.rpartition("-")[0] for _, folder in self.found.folders}


def run_input(settings: RunSettings, store: ObjectStore | None, cluster: Cluster | None) -> RunInput:
    """Return what a run starts from, or refuse the run; it writes nothing but a probe, and that with `apply` alone.

    Raises:
        SourceNotFoundError, NotALogDirError: a source is none.
        UsageError: a source is of another cluster; a URI names no store.
        TransientError: the store or the cluster does not answer.
        RemoteStorageError: the store refuses the credentials, or its bucket does not exist.
        ConditionsIgnoredError: the store ignores the conditions that claims rest on.
    """
    found = discover(settings.sources, settings.topics)
    store = store or open_store(settings.remote, settings.s3, writes=settings.apply)
    (check_conditions if settings.apply else check_lists)(store)
    given = RunInput(found, store)
    if cluster is None:
        return given
    check_cluster(cluster, found.owners)
    if settings.left_for is not None:
        given = replace(given, copy_tasks=_copy_tasks(cluster, found))
    has_replicas = len({folder for _, folder in found.folders}) < len(found.folders)
    if settings.leaders or not has_replicas:
        return given
    return replace(given, leaders=leading_replicas(cluster, found.owners, given.topics))


def _copy_tasks(cluster: Cluster, found: Discovered) -> CopyTasks | None:
    names = {name for _, folder in found.folders if (name := split_folder_name(folder)) is not None}
    return ask_copy_tasks(cluster, names, found.owners).tasks
