"""Compare a remote location with the configuration of the brokers that run on this host.

A broker that runs on this host holds `.lock` of its log directories: its command line names its server.properties.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.publish.location_proof import Evidence, EvidenceKind, EvidenceOutcome
from tiersnap.remote_storage.publish.storage_manager import StoragePlace, endpoint_of, place_of_broker
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.paced_store import PacedStore
from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats import meta_properties
from tiersnap.snapshot.formats.meta_properties import META_PROPERTIES
from tiersnap.snapshot.host.running import BrokerSettings, broker_settings, lock_holder

_KIND = EvidenceKind.SERVER_PROPERTIES


def brokers_here(cluster_id: str, log_dirs: Iterable[str]) -> Iterator[BrokerSettings | str]:
    """Yield the settings of each broker of a cluster that holds one of `log_dirs` here, or why they are not known.

    A directory that is not here, or that no process of this host holds, says nothing.
    """
    seen: set[int] = set()
    for name in dict.fromkeys(log_dirs):
        log_dir = Path(name)
        try:
            holder = lock_holder(log_dir)
            if holder is None or holder.pid in seen or _cluster_of(log_dir) != cluster_id:
                continue
            if not holder.pid:
                yield f"the broker at {log_dir} runs in another container"
                continue
            seen.add(holder.pid)
            yield broker_settings(holder.pid)
        except (OSError, CorruptCheckpointError) as error:
            why = error.message if isinstance(error, CorruptCheckpointError) else error.strerror or str(error)
            yield f"the settings of the broker at {log_dir} cannot be read: {why}"


def _cluster_of(log_dir: Path) -> str:
    path = log_dir / META_PROPERTIES
    return meta_properties.parse(path.read_text("utf-8", "replace"), name=str(path)).cluster_id


def settings_evidence(found: Sequence[BrokerSettings | str], location: RemoteLocation) -> Evidence:
    """Return what the settings of brokers on this host say of a remote location."""
    if not found:
        return Evidence(_KIND, EvidenceOutcome.SILENT, "no broker of the cluster runs on this host")
    each = [_one(broker, location) if isinstance(broker, BrokerSettings) else broker for broker in found]
    compared = [evidence for evidence in each if isinstance(evidence, Evidence)]
    against = [evidence for evidence in compared if evidence.outcome is EvidenceOutcome.CONTRADICTS]
    if compared:
        return (against or compared)[0]
    return Evidence(_KIND, EvidenceOutcome.SILENT, "; ".join(str(why) for why in each))


def _one(broker: BrokerSettings, location: RemoteLocation) -> Evidence | str:
    try:
        theirs = place_of_broker(broker.values)
    except ValueError as error:
        return f"{broker.path} of the running broker: {error}"
    ours = place_of_location(location)
    said = f"{broker.path} of the running broker (process {broker.pid}) names {theirs}"
    if _is_same(broker, theirs, ours):
        return Evidence(_KIND, EvidenceOutcome.HOLDS, said)
    return Evidence(_KIND, EvidenceOutcome.CONTRADICTS, f"{said}, and this is {ours}")


def place_of_location(location: RemoteLocation) -> StoragePlace:
    """Return a remote location as the settings of a storage manager would name it."""
    store, layout = location.store, location.layout.name
    inner = store.inner if isinstance(store, PacedStore) else store
    if isinstance(inner, DirectoryStore):
        return StoragePlace(layout, "", f"{inner.root}/")
    from tiersnap.remote_storage.stores.s3_store import S3Store

    assert isinstance(inner, S3Store)
    return StoragePlace(layout, inner.bucket, inner.prefix, endpoint_of(inner.client.meta.endpoint_url))


def _is_same(broker: BrokerSettings, theirs: StoragePlace, ours: StoragePlace) -> bool:
    if theirs.bucket or ours.bucket or theirs.layout != ours.layout:
        return theirs == ours
    folder, rest = posixpath.split(theirs.prefix)
    try:
        return not rest and broker.located(folder).samefile(ours.prefix)
    except OSError:
        return False
