"""Find the producers that a replica has forgotten: those that live and that remote storage knows.

Stock brokers make such replicas. One that is rebuilt from remote storage downloads the producer snapshot and deletes it
before it loads it (TierStateMachine.buildRemoteLogAuxState, ProducerStateManager.reloadSnapshots).
"""

from __future__ import annotations

import posixpath
import shlex

import numpy as np

from tiersnap.snapshot.errors import TiersnapError, UnknownStateError
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS
from tiersnap.snapshot.exactly_once.simulate.kinds import Forgotten, SnapshotOrigin
from tiersnap.snapshot.exactly_once.simulate.log_dir import HostSimulation
from tiersnap.snapshot.exactly_once.simulate.replica import ReplicaSnapshot
from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import begins_below, may_begin_below
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.replay.expiry import DEFAULT_EXPIRATION_MS, BrokerExpiry, Expiry
from tiersnap.snapshot.replay.remote_listing import RemoteLook
from tiersnap.snapshot.replay.remote_state import ELSEWHERE
from tiersnap.snapshot.replay.replay_start import Beginning, Beginnings, beginning, is_continued


def find_forgotten(
    look: RemoteLook, filesystem: FileSystem, partition: Partition, expiry: BrokerExpiry
) -> Forgotten | None:
    """Return what a replica forgot; None if it knows each producer that lives.

    Only a log that may begin in remote storage is looked at. The file that a broker would load is compared with the
    remote snapshots of the time in which producers live. If it lacks a producer of theirs, the log is read, and the
    remote segments that tell its state, as `simulate` reads them; this decides.

    Raises:
        UnknownStateError: a producer is lacking, and remote storage does not tell the state of the log, or the log is
            damaged.
        TransientError, RemoteStorageError: remote storage does not answer, or refuses.
    """
    is_tiered = partition.topic_id is not None and not never_tiered_reason(partition)
    if not may_begin_below(partition) or not is_tiered:
        return None
    if not (begins_below(partition) or is_continued(partition, look(partition).copies)):
        return None
    partition, broker = Beginning(True).opened(partition), ReplicaSnapshot(SnapshotOrigin.BROKER)
    start = broker.start(filesystem, partition)
    living = look.living_producers(partition, start.offset, expiry)
    if start.entries is None or np.isin(living, start.entries["producer_id"]).all():
        return None
    begins = beginning(look, expiry, partition)
    settings = SimulationSettings(Expiry(DEFAULT_EXPIRATION_MS, expiry.now), expiry.expiration)
    simulation = HostSimulation(broker, settings, beginnings=Beginnings(lambda _: begins))
    for _ in simulation.outcomes_of(filesystem, partition):
        pass  # counted in the tally
    lacks = "its snapshot lacks producers that remote snapshots know, and nobody knows which live"
    if simulation.not_compared:
        raise UnknownStateError(f"{lacks}: {begins.why}", hint=ELSEWHERE)
    if simulation.not_whole:
        why = next(map(str, simulation.findings), "its log cannot be replayed to its end")
        raise UnknownStateError(
            f"{lacks}: {why}", hint=f"tiersnap scan {shlex.quote(posixpath.dirname(partition.path))}"
        )
    tally = simulation.tally
    if not tally.unknown:
        return None
    return Forgotten(tally.producers - tally.unknown, tally.producers, tally.sentence(BROKER_ERAS[-1]))


def told_forgotten(
    look: RemoteLook, filesystem: FileSystem, partition: Partition, expiry: BrokerExpiry
) -> Forgotten | None:
    """Return what `find_forgotten` does; 0 of 0 if that is not known, and `meets` says why."""
    try:
        return find_forgotten(look, filesystem, partition, expiry)
    except TiersnapError as error:
        return Forgotten(0, 0, f"not known: {error.message}")
