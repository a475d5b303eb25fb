"""The logs and the question that most tests here share: can this partition be tiered?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases, snapshots
from tests.broker.harness.disks import Disks, kraft_disks, zookeeper_disks
from tests.broker.harness.remote_log_metadata import states
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier, TieredSegment
from tests.broker.harness.topics import alter_topic, create_topic, wait_for_leader
from tests.broker.harness.waiting import NotInTimeError, wait_until
from tests.broker.harness.writing import Workload, write_segments

TOPIC = "ledger"
LEGACY_VERSION = "2.7.2"
UPGRADED_VERSION = "3.9.1"
CURRENT_VERSION = "4.1.1"
NO_SNAPSHOT = "producerStateSnapshotFile"  # of the NullPointerException's text; the lines around it vary by version
COPIED = "to remote storage with segment-id"
FAILING_INTERVAL_MS = 2000


def write_legacy_log(root: Path, *, segments: int = 13) -> Disks:
    """A topic of a 2.7.2 broker, stopped cleanly: only its last segments have snapshots."""
    disks = zookeeper_disks(root)
    with Broker(disks, LEGACY_VERSION) as broker:
        create_topic(broker, TOPIC)
        write_segments(broker, TOPIC, segments)
    return disks


def write_current_log(
    root: Path, *, version: str = CURRENT_VERSION, segments: int = 11, workload: Workload | None = None
) -> Disks:
    """The same of a KRaft broker: a snapshot for every segment and one at the log end."""
    disks = kraft_disks(root, version)
    with Broker(disks, version) as broker:
        create_topic(broker, TOPIC)
        write_segments(broker, TOPIC, segments, workload)
    return disks


@dataclass(frozen=True)
class TieringOutcome:
    """What a broker made of a partition that it was told to tier."""

    inactive: tuple[int, ...]  # base offsets of the closed segments
    tiered: tuple[TieredSegment, ...]  # complete copies, by base offset
    failures: int  # NullPointerExceptions for want of a snapshot, in this run of the broker
    metadata: Counter[str]  # records of each state in __remote_log_metadata, of earlier runs too
    snapshots: dict[int, bytes]  # in the partition's folder once the broker had loaded it

    @property
    def tiered_bases(self) -> tuple[int, ...]:
        return tuple(segment.base_offset for segment in self.tiered)

    @property
    def tiered_snapshots(self) -> dict[int, bytes]:
        """Content of the snapshot that went with each segment, by the segment's base offset."""
        return {segment.base_offset: segment.files[".snapshot"].read_bytes() for segment in self.tiered}


def try_tiering(
    disks: Disks,
    tier: LocalTier,
    *,
    version: str = CURRENT_VERSION,
    topic: str = TOPIC,
    failures: int = 1,
    seconds: float = 40.0,
) -> TieringOutcome:
    """Start a broker with tiering on `disks`, switch it on for `topic`, look what comes of it, and stop cleanly.

    The broker is left alone until every closed segment is tiered or copying has failed `failures` times: the copier
    goes up the log and stops at the first segment it cannot copy, so nothing more comes after that. Give a `tier` with
    FAILING_INTERVAL_MS where failures are expected.

    Raises:
        NotInTimeError: neither happened within `seconds`.
    """
    with Broker(disks, version, tier=tier) as broker:
        found = snapshots(disks.partition(topic))
        wait_for_leader(broker, topic)
        wait_for_tiering(broker, tier, topic=topic, failures=failures, seconds=seconds)
        return outcome_of(broker, tier, topic=topic, found=found)


def wait_for_tiering(
    broker: Broker, tier: LocalTier, *, topic: str = TOPIC, failures: int = 1, seconds: float = 40.0
) -> None:
    """Switch tiering on for `topic` and wait as `try_tiering` says."""
    folder = broker.disks.partition(topic)
    already = len(set(tier.complete_bases(topic)))
    alter_topic(broker, topic, TOPIC_SETTINGS)

    def settled() -> bool:
        # The line follows COPY_SEGMENT_FINISHED, the files come before it: a stop between would tier a segment twice.
        copied = sum(f":{topic}-0]" in line for line in broker.log.lines(COPIED))
        return already + copied >= len(segment_bases(folder)) - 1 or broker.log.count(NO_SNAPSHOT) >= failures

    try:
        wait_until(settled, "tiering succeeds or fails", seconds=seconds)
    except NotInTimeError as late:
        raise NotInTimeError(f"{late}; tiered {tier.complete_bases(topic)}\n{broker.log.tail()}") from late


def outcome_of(
    broker: Broker, tier: LocalTier, *, topic: str = TOPIC, found: dict[int, bytes] | None = None
) -> TieringOutcome:
    """The outcome so far; `found` are the snapshots to report, those of this moment by default."""
    folder = broker.disks.partition(topic)
    return TieringOutcome(
        inactive=tuple(segment_bases(folder)[:-1]),
        tiered=tuple(segment for segment in tier.segments(topic) if segment.complete),
        failures=broker.log.count(NO_SNAPSHOT),
        metadata=states(broker, topic),
        snapshots=snapshots(folder) if found is None else found,
    )
