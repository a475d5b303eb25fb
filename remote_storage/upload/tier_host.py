"""One host's way: a partition examined where it lies, and its READY segments into remote storage. No Spark, no tables.

What remote storage holds is the only memory: its copies say what is done, its claims who is at it. Examination, verdict
and copy are the functions that the tasks of a fleet call.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tiersnap.remote_storage.inventory.observe import Observe
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.retire.leftovers import sweep_partition
from tiersnap.remote_storage.retire.store_leftovers import SweptStore, sweep_store
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.probe_conditions import check_conditions
from tiersnap.remote_storage.upload.snapshot_sink import KeptSnapshots, StoredSnapshots
from tiersnap.remote_storage.upload.tier_job import Tierer, TierJob
from tiersnap.remote_storage.upload.tier_partition import tier_partition
from tiersnap.remote_storage.upload.tier_task import planned_segment
from tiersnap.snapshot.errors import RECORDED, TiersnapError, failure
from tiersnap.snapshot.formats.meta_properties import MetaProperties
from tiersnap.snapshot.log.log_dir import Partition, read_properties
from tiersnap.snapshot.log.places import place_of
from tiersnap.snapshot.log.selection import NamedLogDir, matches_topic
from tiersnap.snapshot.readiness.copy_task import NO_BROKERS, BesideBrokers, ClusterAnswer
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.tables.facts import FactKind, Row
from tiersnap.snapshot.tables.listed import to_row
from tiersnap.snapshot.tasks.carry_options import CarryOptions
from tiersnap.snapshot.tasks.carry_partition import CarryPartition
from tiersnap.snapshot.tasks.judge_partition import JudgePartition
from tiersnap.snapshot.tasks.list_partitions import ListPartitions
from tiersnap.snapshot.tasks.local_input import LocalInput


@dataclass
class HostPartition:
    """What was found of a partition and done about it.

    Attributes:
        log_dir: as the user named it.
        readiness: rows of READINESS, as they stand now.
        tiered: rows of tier_rows.TIERED.
        findings: rows of PARTITIONS of the kind FINDING.
        errors: what failed.
        snapshots_written: objects.
        snapshots_mended: those of them that took the place of a damaged object.
        leftovers_removed: objects of attempts that had ended.
        encryption: listed.Encryption of what lies in remote storage; None where nobody looked.
    """

    log_dir: str
    partition: Partition
    readiness: list[Row] = field(default_factory=list)
    tiered: list[Row] = field(default_factory=list)
    findings: list[Row] = field(default_factory=list)
    errors: list[TiersnapError] = field(default_factory=list)
    snapshots_written: int = 0
    snapshots_mended: int = 0
    leftovers_removed: int = 0
    encryption: str | None = None


@dataclass(frozen=True)
class HostTier:
    """Tiers the partitions of one host's log directories.

    Attributes:
        topic_ids: ids by topic, for topics that have none on disk.
        allow_plaintext: also among segments that the plugin encrypted.
        beside: how to tell that a broker is at work, to which segments are left.
        known_to_brokers: ids of the remote segments that the cluster's records name, by topic id; None where none was
            asked.
        apply: write to remote storage; without it the verdicts say what would be.
    """

    store: ObjectStore
    layout: Layout
    options: CarryOptions
    tierer: Tierer
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    check_crc: bool = True
    allow_plaintext: bool = False
    beside: BesideBrokers = NO_BROKERS
    known_to_brokers: Mapping[str, Container[str]] | None = None
    apply: bool = False
    _kept: KeptSnapshots = field(default_factory=KeptSnapshots)

    def told(self, answer: ClusterAnswer, left_for: int | None) -> HostTier:
        """Return it as it tiers beside brokers, by what a cluster says; see BesideBrokers."""
        beside = BesideBrokers(left_for=left_for, tasks=answer.tasks)
        return replace(self, beside=beside, known_to_brokers=answer.segment_ids)

    def prepare_store(self, topic: re.Pattern[str] | None) -> SweptStore:
        """Refuse a store that keeps no conditions, and remove what killed processes left; not without `apply`.

        A bucket that is not there or refuses is better known before the work than after it.

        Args:
            topic: takes the topics that are tiered; None takes all.

        Raises:
            ConditionsIgnoredError: see check_conditions.
        """
        if not self.apply:
            return SweptStore()
        check_conditions(self.store)
        return sweep_store(self.store, ObjectKeys(), lambda name: matches_topic(name, topic))

    def partitions(self, found: Iterable[tuple[NamedLogDir, Partition]]) -> Iterator[HostPartition]:
        """One partition after the other; after a server that does not answer, none is asked of it again."""
        observe = Observe(self.store, self.layout, not self.allow_plaintext, self.known_to_brokers)
        look = ListPartitions(look=observe, wants_start=True)
        sink = None
        if self.apply:
            sink = StoredSnapshots(self.store, self.tierer.run_id, self.options.replace, kept=self._kept)
        carry = CarryPartition(self.options, sink, run=1, now=self.tierer.now, look=observe)
        properties: dict[str, MetaProperties | None] = {}
        for named, each in found:
            log_dir = named.log_dir
            if named.uri not in properties:
                properties[named.uri] = read_properties(log_dir.filesystem, log_dir.path)
            partition = replace(each, topic_id=each.topic_id or self.topic_ids.get(each.topic))
            row = to_row(place_of(named.uri), partition, properties=properties[named.uri])
            listed = look.with_remote(row, partition)
            mine = carry if listed["remote_error"] is None else replace(carry, sink=None)
            yield self._tier(named, partition, listed, mine)

    def _tier(
        self, named: NamedLogDir, partition: Partition, listed: dict[str, Any], carry: CarryPartition
    ) -> HostPartition:
        done = HostPartition(named.uri, partition)
        self._kept.clear()
        rows = LocalInput(named.log_dir.filesystem, partition, listed, check_crc=self.check_crc)
        facts = list(carry.facts(rows))
        done.findings = [row for row in facts if row["kind"] == FactKind.FINDING]
        done.errors = [_failure(row["message"], row) for row in facts if row["kind"] == FactKind.ERROR]
        done.snapshots_written = sum(row.get("written_by") is not None for row in facts)
        done.snapshots_mended = sum(bool(row.get("is_mended")) for row in facts)
        if listed["remote_error"] is not None:
            done.errors.append(_failure(listed["remote_error"], listed))
        done.encryption = listed["encryption"]
        beside = self._beside_now(listed)
        judge = JudgePartition(self.options.replace, self.tierer.now, self.options.producer_expiration, beside=beside)
        done.readiness = list(judge.verdicts(_complete(facts), listed["copies"]))
        ready = [row for row in done.readiness if row["verdict"] == Verdict.READY]
        if carry.sink is not None and listed["leftover_count"]:
            self._sweep(done)
        if carry.sink is not None and ready:
            self._copy(done, listed, ready)
        return done

    def _beside_now(self, listed: Mapping[str, Any]) -> BesideBrokers:
        """By the store's clock as it is now; that is asked only where a broker's copy may have been made just now."""
        is_asked = self.beside.left_for is not None and any(copy["is_brokers"] for copy in listed["copies"])
        return replace(self.beside, store_now=self.store.now()) if is_asked else self.beside

    def _sweep(self, done: HostPartition) -> None:
        """Delete what ended attempts left, also where nothing is to be tiered."""
        job = TierJob(self.store, self.layout, ObjectKeys(), _name(done.partition), self.tierer)
        try:
            swept = sweep_partition(self.store, job.keys, job.list_remote_partition(done.partition.first_base_offset))
            done.leftovers_removed = swept.objects
            swept.check()
        except TiersnapError as error:
            done.errors.append(error)

    def _copy(self, done: HostPartition, listed: Mapping[str, Any], ready: list[Row]) -> None:
        name = _name(done.partition)
        planned = [planned_segment(row, self._kept) for row in ready_rows(listed, ready)]
        by_base = {row["base_offset"]: row for row in done.readiness}
        cluster_id = listed["cluster_id"]
        for row in tier_partition(
            self.store, self.layout, ObjectKeys(), name, planned, self.tierer, cluster_id=cluster_id
        ):
            done.tiered.append(row)
            if row["error"] is not None:
                done.errors.append(_failure(row["error"], row))
            elif row["state"] in (None, "COPY_SEGMENT_FINISHED"):
                tiered = {"verdict": str(Verdict.ALREADY_TIERED), "reason": "in remote storage", "next_step": ""}
                by_base[row["start_offset"]].update(tiered)


def _failure(message: str, row: Mapping[str, Any]) -> TiersnapError:
    return failure(message, **{name: row[name] for name in RECORDED})


def _name(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic, partition.topic_id, partition.partition)


def ready_rows(listed: Mapping[str, Any], ready: list[Row]) -> Iterator[Row]:
    """Rows of tier_task.READY of JUDGED rows, as jobs.pipeline.tiering.ready_segments joins them."""
    files = {segment["base_offset"]: segment for segment in listed["segments"]}
    for row in ready:
        sizes = {name: size for name, size in files[row["base_offset"]].items() if name.endswith("_index_bytes")}
        yield {**row, **sizes, "verdict": row["snapshot"], **row["copy"]}


def _complete(facts: list[Row]) -> list[Row]:
    """Rows with every column that verdicts ask for, as a table would give them."""
    names = (
        *("object_key", "object_crc", "file_bytes", "file_crc", "next_base_offset", "finding_kind"),
        *("leader_epochs", "open_transactions", "expired_to", "encrypted_by"),
    )
    return [{**dict.fromkeys(names), **row} for row in facts]
