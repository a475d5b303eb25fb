"""Compare a remote location with the configuration of the brokers that run on this host.

A running broker locks the file `.lock` in its log directories. The command line of the broker process names the
broker's server.properties.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from pathlib import Path

from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.publish.location_proof import (
    Evidence,
    EvidenceKind,
    EvidenceOutcome,
    LocationVerdict,
    decide,
)
from tiersnap.remote_storage.publish.storage_manager import (
    CLASS_NAME,
    BrokerAnswer,
    StoragePlace,
    endpoint_of,
    place_of_broker,
)
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.paced_store import PacedStore
from tiersnap.snapshot.host.brokers import brokers_here
from tiersnap.snapshot.host.running_broker import BrokerSettings
from tiersnap.snapshot.log.places import place_of

_KIND = EvidenceKind.SERVER_PROPERTIES


def beside_brokers(log_dirs: Iterable[str], location: RemoteLocation) -> LocationVerdict:
    """Return the verdict about a location from the server.properties of brokers that run on these log directories."""
    evidence = settings_evidence(list(brokers_here(None, map(place_of, log_dirs))), location)
    return decide(name_of(location), [evidence])


def name_of(location: RemoteLocation) -> str:
    """Return the URI and the layout of a location, for messages."""
    return f"{location.store.uri} ({location.layout.name})"


def settings_evidence(
    found: Sequence[BrokerSettings | str], location: RemoteLocation, answers: Sequence[BrokerAnswer] = ()
) -> Evidence:
    """Return the evidence for a remote location from the settings of brokers.

    Args:
        found: settings of brokers; a str is the reason why settings are unknown.
        answers: the cluster's answers about its brokers. The settings of a stopped broker prove a location only if the
            cluster reports a broker with the same settings.
    """
    if not found:
        return Evidence(_KIND, EvidenceOutcome.SILENT, "no broker of the cluster runs on this host")
    compared = [_one(broker, location, answers) for broker in found]
    decisive = [*_with(EvidenceOutcome.CONTRADICTS, compared), *_with(EvidenceOutcome.PROVES, compared)]
    if decisive:
        return decisive[0]
    said = dict.fromkeys(each.sentence for each in compared)
    return Evidence(_KIND, EvidenceOutcome.SILENT, "; ".join(said))


def _with(outcome: EvidenceOutcome, evidence: Sequence[Evidence]) -> list[Evidence]:
    return [each for each in evidence if each.outcome is outcome]


def _one(broker: BrokerSettings | str, location: RemoteLocation, answers: Sequence[BrokerAnswer]) -> Evidence:
    if isinstance(broker, str):
        return Evidence(_KIND, EvidenceOutcome.SILENT, broker)
    whose = names = broker.path
    if broker.pid:
        whose = f"{broker.path} of the running broker"
        names = f"{whose} (process {broker.pid})"
    try:
        theirs = place_of_broker(broker.values)
    except ValueError as error:
        return Evidence(_KIND, EvidenceOutcome.SILENT, f"{whose}: {error}")
    ours = place_of_location(location)
    outcome, said = _compare(broker, theirs, ours), f"{names} names {theirs}"
    if outcome is not EvidenceOutcome.PROVES:
        return Evidence(_KIND, outcome, f"{said}, but this location is {ours}")
    if not broker.pid and not any(_has_settings(each, broker) for each in answers):
        return Evidence(
            _KIND, EvidenceOutcome.HINTS, f"{said}, but no broker of the cluster reported the same settings"
        )
    return Evidence(_KIND, outcome, said)


def _has_settings(answer: BrokerAnswer, broker: BrokerSettings) -> bool:
    """Return whether the visible settings in a broker's answer equal the settings in a server.properties file."""
    values = broker.values
    node = values.get("node.id") or values.get("broker.id")
    shown = str(answer.broker), answer.class_name, answer.log_dirs
    return shown == (node, values.get(CLASS_NAME, ""), broker.named_log_dirs)


def place_of_location(location: RemoteLocation) -> StoragePlace:
    """Return a remote location as a StoragePlace, for the comparison with brokers' settings."""
    store, layout = location.store, location.layout.name
    inner = store.inner if isinstance(store, PacedStore) else store
    if isinstance(inner, DirectoryStore):
        return StoragePlace(layout, "", f"{inner.root}/")
    from tiersnap.remote_storage.stores.s3_store import S3Store

    assert isinstance(inner, S3Store)
    return StoragePlace(layout, inner.bucket, inner.prefix, endpoint_of(inner.client.meta.endpoint_url))


def server_of(store: ObjectStore) -> str:
    """Return the S3 endpoint, or the inode number of a directory; "" for other stores.

    This value distinguishes a store from a replica with the same URI.

    Raises:
        OSError: the directory does not exist.
    """
    inner = store.inner if isinstance(store, PacedStore) else store
    if isinstance(inner, DirectoryStore):
        return f"inode {inner.root.stat().st_ino}"
    if not inner.uri.startswith("s3://"):
        return ""
    from tiersnap.remote_storage.stores.s3_store import S3Store

    assert isinstance(inner, S3Store)
    return endpoint_of(inner.client.meta.endpoint_url)


def _compare(broker: BrokerSettings, theirs: StoragePlace, ours: StoragePlace) -> EvidenceOutcome:
    """Compare a broker's location with `ours`. If only the endpoints differ, the outcome is SILENT.

    One server can have many addresses: port forwards, VPC endpoints, names inside and outside a network.
    """
    if (theirs.layout, theirs.bucket) != (ours.layout, ours.bucket):
        return EvidenceOutcome.CONTRADICTS
    if not theirs.bucket:
        return _compare_directories(broker, theirs, ours)
    if theirs.prefix != ours.prefix:
        return EvidenceOutcome.CONTRADICTS
    if theirs.endpoint != ours.endpoint:
        return EvidenceOutcome.SILENT
    return EvidenceOutcome.PROVES


def _compare_directories(broker: BrokerSettings, theirs: StoragePlace, ours: StoragePlace) -> EvidenceOutcome:
    folder, rest = posixpath.split(theirs.prefix)
    if rest:  # key.prefix does not end with /
        return EvidenceOutcome.CONTRADICTS
    try:
        is_same = _is_same_folder(broker.located(folder), Path(ours.prefix))
    except OSError:  # this user may not read the directory
        return EvidenceOutcome.SILENT
    if not is_same:
        return EvidenceOutcome.CONTRADICTS
    return EvidenceOutcome.PROVES


def _is_same_folder(theirs: Path, ours: Path) -> bool:
    """Return whether two paths name the same folder. Neither folder needs to exist.

    The plugin creates a folder when it writes the first object.
    """
    try:
        return theirs.samefile(ours)
    except FileNotFoundError:
        if theirs.exists() or ours.exists():
            return False
        return theirs.name == ours.name and _is_same_folder(theirs.parent, ours.parent)
