"""The search for replicas that lost active producers. Remote storage still has these producers.

A broker loses producers when it rebuilds a replica from remote storage. It downloads the producer snapshot, but deletes
the snapshot before loading (TierStateMachine.buildRemoteLogAuxState, ProducerStateManager.reloadSnapshots).
"""

from __future__ import annotations

import posixpath
import shlex

import numpy as np

from tiersnap.snapshot.errors import TiersnapError, UnknownStateError
from tiersnap.snapshot.exactly_once.models.eras import BROKER_ERAS
from tiersnap.snapshot.exactly_once.simulate.kinds import LostProducers, SnapshotOrigin
from tiersnap.snapshot.exactly_once.simulate.log_dir import HostSimulation
from tiersnap.snapshot.exactly_once.simulate.replica import ReplicaSnapshot
from tiersnap.snapshot.exactly_once.simulate.settings import SimulationSettings
from tiersnap.snapshot.log.file_system import FileSystem
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.log_start import begins_below, may_begin_below
from tiersnap.snapshot.log.selection import never_tiered_reason
from tiersnap.snapshot.replay.expiry import DEFAULT_EXPIRATION_MS, BrokerExpiry, Expiry
from tiersnap.snapshot.replay.remote_listing import ELSEWHERE, RemoteLook
from tiersnap.snapshot.replay.replay_start import Beginning, Beginnings, beginning, is_continued


def find_lost_producers(
    look: RemoteLook, filesystem: FileSystem, partition: Partition, expiry: BrokerExpiry
) -> LostProducers | None:
    """Return the producers that a replica lost, None if it has every active producer.

    Only logs that may begin in remote storage are examined. The snapshot file that a broker would load is compared with
    the remote snapshots that are younger than the expiration. If the file lacks a producer of these snapshots, the log
    and the earlier remote segments are replayed, as in `simulate`. The result is from this replay.

    Raises:
        UnknownStateError: the file lacks a producer, but the state of the log cannot be computed.
        TransientError: remote storage does not answer.
        RemoteStorageError: remote storage refuses the request.
    """
    if not _begins_in_remote(look, partition):
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
        pass  # the rows are not needed, only the tally
    _refuse_unknown(simulation, begins, partition)
    tally = simulation.tally
    if not tally.unknown:
        return None
    return LostProducers(tally.producers - tally.unknown, tally.producers, tally.sentence(BROKER_ERAS[-1]))


def _begins_in_remote(look: RemoteLook, partition: Partition) -> bool:
    """Return whether the log begins in remote storage. The result is False if the topic is never tiered."""
    if partition.topic_id is None or never_tiered_reason(partition) or not may_begin_below(partition):
        return False
    return bool(begins_below(partition) or is_continued(partition, look(partition).copies))


def _refuse_unknown(simulation: HostSimulation, begins: Beginning, partition: Partition) -> None:
    """Refuse a partition that could not be simulated.

    Raises:
        UnknownStateError: the simulation was incomplete.
    """
    lacks = (
        "the snapshot lacks producers that remote snapshots have, and the log does not show which of them are active"
    )
    if simulation.not_compared:
        raise UnknownStateError(f"{lacks}: {begins.why}", hint=ELSEWHERE)
    if simulation.not_whole:
        why = next(map(str, simulation.findings), "the log cannot be replayed to its end")
        raise UnknownStateError(
            f"{lacks}: {why}", hint=f"tiersnap scan {shlex.quote(posixpath.dirname(partition.path))}"
        )


def lost_producers_of(
    look: RemoteLook, filesystem: FileSystem, partition: Partition, expiry: BrokerExpiry
) -> LostProducers | None:
    """Return the result of `find_lost_producers`. If it fails, return zero counts and the error's message."""
    try:
        return find_lost_producers(look, filesystem, partition, expiry)
    except TiersnapError as error:
        return LostProducers(0, 0, f"not known: {error.message}")
