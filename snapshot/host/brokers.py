"""Find the brokers of log directories on this host, and the cluster of each broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats import meta_properties
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.host.running_broker import BrokerSettings, broker_settings, lock_holder


def brokers_here(cluster_id: str | None, log_dirs: Iterable[str]) -> Iterator[BrokerSettings | str]:
    """Yield the settings of each broker that runs on one of `log_dirs`, or the reason why its settings are unknown.

    Directories on other hosts and directories without a running broker are skipped.

    Args:
        cluster_id: only brokers of this cluster; None for any cluster.
    """
    seen: set[int] = set()
    for name in dict.fromkeys(log_dirs):
        log_dir = Path(name)
        try:
            holder = lock_holder(log_dir)
            if holder is None or holder.pid in seen or (cluster_id and cluster_id != cluster_of(log_dir)):
                continue
            if not holder.pid:
                yield f"the broker at {log_dir} runs in another container, so its settings cannot be read"
                continue
            seen.add(holder.pid)
            yield broker_settings(holder.pid)
        except (OSError, CorruptCheckpointError) as error:
            why = str(error)
            if isinstance(error, OSError) and error.strerror:
                why = error.strerror
            yield f"the settings of the broker at {log_dir} cannot be read: {why}"


def of_cluster(cluster_id: str, found: Iterable[BrokerSettings | str]) -> Iterator[BrokerSettings | str]:
    """Yield the brokers whose log directories belong to a cluster, and the reasons for unknown settings.

    Settings from a file are also yielded if their log directories are not on this host, because the broker may run in a
    container.
    """
    for each in found:
        if isinstance(each, str):
            yield each
            continue
        clusters = set()
        for name in each.named_log_dirs:
            with suppress(OSError, CorruptCheckpointError):
                clusters.add(cluster_of(Path(each.on_host(name))))
        if clusters == {cluster_id} or not (clusters or each.pid):
            yield each


def cluster_of(log_dir: Path) -> str:
    """Return the cluster id in `meta.properties` of a log directory.

    Raises:
        OSError: the file cannot be read.
        CorruptCheckpointError: the file is damaged.
    """
    path = log_dir / META_PROPERTIES
    return meta_properties.parse(path.read_text("utf-8", "replace"), name=str(path)).cluster_id
