"""The number of producers whose state a follower would lose with an empty snapshot, for many offsets at once.

A follower that loads an empty snapshot at offset X replays the log from X. It has a producer only if the producer has a
record at or above X. It knows less than the leader about the producer if cached batches, the last marker or the start
of the open transaction are below X. A producer has one offset for each of these positions. So each number of Exposure
is a number of producers with such an offset below X, or a sum of their records, bytes or times.

Only producers that a broker would keep are counted: producers that have an open transaction, or were idle for less than
producer.id.expiration.ms. Follows KIP-952, "Rejected Alternatives" 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiersnap.snapshot.exactly_once.models.eras import BrokerEra
from tiersnap.snapshot.exactly_once.simulate.kinds import Write
from tiersnap.snapshot.exactly_once.simulate.replica_state import (
    NO_BATCHES,
    ReplicaState,
    cached_by_broker,
    empty_state,
)
from tiersnap.snapshot.exactly_once.simulate.risk_kinds import Exposure
from tiersnap.snapshot.exactly_once.simulate.sightings import Sightings
from tiersnap.snapshot.exactly_once.simulate.what_if import Circumstances, what_if
from tiersnap.snapshot.producer_fold import NONE
from tiersnap.snapshot.replay.expiry import BrokerExpiry

_NEVER = 2**63 - 1
# delivery.timeout.ms, a producer setting: the time in which a client retries a batch automatically.
DEFAULT_DELIVERY_TIMEOUT_MS = 120_000


class ProducersAtRisk:
    """The active producers of a partition, and the offsets that decide which snapshots expose them."""

    def __init__(
        self,
        leader: ReplicaState,
        sightings: Sightings,
        *,
        now: int,
        expiration: int | None,
        era: BrokerEra,
        log_start_offset: int = 0,
        delivery_timeout: int = DEFAULT_DELIVERY_TIMEOUT_MS,
    ) -> None:
        """Compute, for each producer, the offsets that decide which empty snapshots expose it.

        Args:
            leader: state of a leader that never stopped, at the log end. The constructor removes expired producers.
            sightings: first and last ranges of batches that contain each producer, from the whole log.
            now: epoch ms.
            expiration: ms, producer.id.expiration.ms of the broker; None if producers never expire.
            era: the releases of brokers whose rules decide whether a batch is appended twice.
            log_start_offset: log start offset of the partition.
            delivery_timeout: ms, delivery.timeout.ms of the producers.
        """
        leader = leader.live(BrokerExpiry(now, expiration))
        entries = leader.entries
        seen = sightings.of(entries["producer_id"])
        self.first_seen, self.last_marker = seen["first_seen"], seen["last_marker"]
        # A producer with only emptied batches has no timestamp. A broker with an expiration removes such a producer.
        self.last_seen = seen["last_seen"] if expiration is None else seen["last_epoch"]
        self.opened = entries["current_txn_first_offset"].astype(np.int64)
        self.has_coordinator_epoch = entries["coordinator_epoch"] >= 0
        self.has_batch = (entries["last_offset"] >= 0) & (entries["last_sequence"] >= 0)
        self.last_offset = entries["last_offset"].astype(np.int64)
        cached = leader.batches.compress(cached_by_broker(leader))
        self._cached_from, self._records, self._bytes, is_sized = _of_batches(entries["producer_id"], cached)
        self._known_from = np.minimum.reduce(
            [
                seen["last_epoch"],
                np.where(self.has_batch, self._cached_from, _NEVER),
                np.where(self.has_coordinator_epoch, self.last_marker, _NEVER),
                np.where(self.opened >= 0, self.opened, _NEVER),
            ]
        )
        self._has_epoch = entries["producer_epoch"] > 0
        given = Circumstances(log_start_offset)
        self._is_doubled = _is_doubled(leader, empty_state(), era, given)
        self._is_doubled_by_marker = _is_doubled(leader, _markers_alone(leader), era, given)
        self._has_bytes = bool(is_sized[self._is_doubled | self._is_doubled_by_marker].all())
        self._now = now
        self._is_young = now - entries["timestamp"].astype(np.int64) < delivery_timeout
        never = self.opened >= 0
        if expiration is None:
            never = np.ones(entries.size, np.bool_)
        self._dropped_at = np.where(never, _NEVER, entries["timestamp"].astype(np.int64) + (expiration or 0))
        # A producer that never expires adds no time to `producer_ms`.
        self._left = np.where(never, 0, self._dropped_at - now)

    def __len__(self) -> int:
        return int(self.last_seen.size)

    def exposures(self, offsets: Sequence[int]) -> list[Exposure]:
        """Return the exposure that an empty snapshot would cause, for each offset.

        A range of batches (Run) must begin at each of `offsets`.
        """
        at = np.asarray(offsets, np.int64)
        lost_below = self.last_seen
        coordinator = np.where(self.has_coordinator_epoch, self.last_marker, _NEVER)
        opened = np.where(self.opened >= 0, self.opened, _NEVER)
        columns = {
            "producers": _sums(self.first_seen, at),
            "lost": _sums(lost_below, at),
            "degraded": _between(self._known_from, lost_below, at),
            "doubled": self._doubled(at, np.ones_like(lost_below)),
            "doubled_automatically": self._doubled(at, self._is_young),
            "doubled_records": self._doubled(at, self._records),
            "doubled_bytes": self._doubled(at, self._bytes),
            "fencing_lost": _sums(lost_below, at, self._has_epoch),
            "coordinator_epochs_lost": _sums(coordinator, at),
            "open_transactions_lost": _sums(opened, at),
            "producer_ms": _sums(lost_below, at, self._left),
        }
        last = _greatest(lost_below, at, self._dropped_at).tolist()
        found = []
        for number in range(at.size):
            counts: dict[str, int | None] = {name: int(values[number]) for name, values in columns.items()}
            if not self._has_bytes:
                counts["doubled_bytes"] = None
            ends = None if last[number] == _NEVER else max(0, last[number] - self._now)
            exposed = ends if counts["lost"] else 0
            found.append(Exposure(exposed_ms=exposed, **counts))  # type: ignore[arg-type]
        return found

    def _doubled(self, at: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return for each offset the sum of the weights of the producers whose last batch would be appended twice."""
        unknown = _sums(self.last_seen, at, np.where(self._is_doubled, weights, 0))
        # The batch is below the offset and a marker is above it, so the follower has the producer without a sequence.
        marked = _between(self.last_offset, self.last_seen, at, np.where(self._is_doubled_by_marker, weights, 0))
        total: np.ndarray = unknown + marked
        return total


def _of_batches(ids: np.ndarray, cached: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return four arrays with an item per producer, about its cached batches.

    The items are the lowest offset, the number of records, the number of bytes, and whether the bytes of all batches
    are known.
    """
    lowest, records, size = np.full(ids.size, _NEVER), np.zeros(ids.size, np.int64), np.zeros(ids.size, np.int64)
    is_sized = np.ones(ids.size, np.bool_)
    index = np.searchsorted(ids, cached["producer_id"])
    np.minimum.at(lowest, index, cached["first_offset"])
    np.add.at(records, index, cached["last_offset"] - cached["first_offset"] + 1)
    np.add.at(size, index, cached["size_bytes"].astype(np.int64))
    is_sized[index[cached["size_bytes"] == 0]] = False
    return lowest, records, size, is_sized


def _is_doubled(leader: ReplicaState, replica: ReplicaState, era: BrokerEra, given: Circumstances) -> np.ndarray:
    """Return a mask of the leader's producers whose last batch the replica would append a second time."""
    mask = np.zeros(leader.entries.size, np.bool_)
    for each in what_if(leader, replica, (era,), given):
        if each.write is Write.RETRY_OF_LAST and each.doubles(era):
            mask[each.members] = True
    return mask


def _markers_alone(leader: ReplicaState) -> ReplicaState:
    """Return the state of a replica that has only a marker of each producer."""
    entries = leader.entries.copy()
    entries["last_offset"] = entries["last_sequence"] = entries["current_txn_first_offset"] = NONE
    entries["offset_delta"] = 0
    return ReplicaState(entries, NO_BATCHES)


def _between(low: np.ndarray, high: np.ndarray, at: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return for each offset the sum of the weights of the items with `low` < offset <= `high`.

    If `weights` is None, return the number of these items.
    """
    sums: np.ndarray = _sums(low, at, weights) - _sums(np.maximum(low, high), at, weights)
    return sums


def _sums(values: np.ndarray, at: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return for each offset the sum of the weights of the values below the offset.

    If `weights` is None, return the number of these values.
    """
    if weights is None:
        return np.searchsorted(np.sort(values), at, side="left")
    order = np.argsort(values, kind="stable")
    total = np.concatenate([[0], np.cumsum(weights[order], dtype=np.int64)])
    sums: np.ndarray = total[np.searchsorted(values[order], at, side="left")]
    return sums


def _greatest(values: np.ndarray, at: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return for each offset in `at` the greatest `wanted[i]` for which `values[i]` is below the offset.

    If no item of `values` is below the offset, the result is -1.
    """
    order = np.argsort(values, kind="stable")
    most = np.array([NONE])
    if values.size:
        most = np.concatenate([most, np.maximum.accumulate(wanted[order])])
    found: np.ndarray = most[np.searchsorted(values[order], at, side="left")]
    return found
