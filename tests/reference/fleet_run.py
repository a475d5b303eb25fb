"""A fleet's run in this process: the product's tasks, lists for tables, and no JVM; it can be killed at any step.

Tasks, rows and writes are the product's own. What Spark does between them is tests.reference.fleet_joins, the readable
answer that tests/spark holds against the DataFrames. A host's run needs neither: it is `tiersnap tier`, or HostTier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tests.reference import fleet_joins
from tests.reference.fleet_joins import Row, Tables, input_batches, key_of
from tests.reference.killable_store import Clock
from tests.reference.log_builder import TIMESTAMP
from tiersnap.jobs.pipeline.before_spark import Discovered, discover
from tiersnap.jobs.pipeline.decoding import WANTED, DecodeSegments
from tiersnap.jobs.pipeline.listing import FOLDER_ROWS, NOTHING_STATED, ListPartitions, SourceFolder, StatedFacts
from tiersnap.jobs.pipeline.replaying import ReplayPartition
from tiersnap.jobs.pipeline.unread import UNREAD, look_again
from tiersnap.jobs.pipeline.verdicts import JudgePartition
from tiersnap.remote_storage.cluster.records_task import FOUND_ROWS, ReadRecords, wanted_of_replicas
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
from tiersnap.remote_storage.remote_log.observe import Observe
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.upload.stored_snapshots import StoredSnapshots
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.remote_storage.upload.tier_task import READY, TierTask
from tiersnap.snapshot.gate.copy_task import NO_BROKERS, BesideBrokers
from tiersnap.snapshot.replay.expiry import BrokerExpiry, ReplayOptions, Scan
from tiersnap.snapshot.replay.remote_records import PartitionRecords
from tiersnap.snapshot.tables.all_tables import TABLES
from tiersnap.snapshot.tables.readiness import READINESS

DAY = 86_400_000


@dataclass
class Ran:
    """What one run found and did.

    Attributes:
        listed, changes: rows of LISTED and of changes.partition_changes.
        decoded: (topic, base offset) of the segments that were read.
        unread: rows of UNREAD.
        facts: rows of `partitions` that were appended.
        ready: rows of READY.
        tiered: rows of TIERED.
        readiness: rows of READINESS of what was listed, by partition and offset.
        commits: how often something was appended to a table.
    """

    listed: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    decoded: list[tuple[str, int]] = field(default_factory=list)
    unread: list[Row] = field(default_factory=list)
    appended: list[Row] = field(default_factory=list)  # to the table `partitions`
    facts: list[Row] = field(default_factory=list)  # of the partitions that were replayed
    ready: list[Row] = field(default_factory=list)
    tiered: list[Row] = field(default_factory=list)
    readiness: list[Row] = field(default_factory=list)
    commits: int = 0

    @property
    def failures(self) -> list[tuple[str, bool]]:
        """(message, whether it may pass)."""
        replayed = [(row["error"], row["is_transient"]) for row in self.facts if row["kind"] == "ERROR"]
        unknown = [(row["error"], row["is_transient"]) for row in self.listed if row["error"] is not None]
        return replayed + unknown + [(row["error"], row["is_transient"]) for row in self.tiered if row["error"]]

    @property
    def errors(self) -> list[str]:
        """Messages."""
        return [message for message, _ in self.failures]

    @property
    def is_transient(self) -> bool:
        """Whether all errors may pass."""
        return all(may_pass for _, may_pass in self.failures)

    @property
    def segments_uploaded(self) -> int:
        """Copies that this run made."""
        return sum(row["state"] == "COPY_SEGMENT_FINISHED" and row["object_bytes"] > 0 for row in self.tiered)

    @property
    def verdicts(self) -> dict[str, int]:
        """Segments by verdict."""
        found = [row["verdict"] for row in self.readiness]
        return {verdict: found.count(verdict) for verdict in sorted(set(found))}

    def boundaries(self) -> dict[int, str]:
        """What was said of the file at each offset."""
        return {row["snapshot_offset"]: row["compared"] for row in self.facts if row["kind"] == "BOUNDARY"}

    @property
    def did_nothing(self) -> bool:
        """Whether it wrote no object and no row."""
        return self.commits == 0 and not self.segments_uploaded


def _records(found: Discovered, folder: str) -> tuple[PartitionRecords, ...]:
    """Those of a partition in the replicas of `__remote_log_metadata` that the sources hold."""
    read = []
    for number in sorted({number for number, _ in found.metadata_replicas}):
        wanted = wanted_of_replicas(each for each in found.metadata_replicas if each[0] == number)
        assert wanted is not None
        read += [row for row in _rows(ReadRecords()(iter([wanted]))) if row["folder"] == folder]
    return tuple(records for each in FOUND_ROWS.read_dicts(read) for records in each.records)


@dataclass
class Runner:
    """`tiersnap run` on one source, one set of tables and one remote; each call is one run."""

    folder: Path
    source: Path
    remote: str = ""
    layout: Layout = field(default_factory=AivenLayout)
    tables: Tables = field(default_factory=Tables)
    runs: int = 0

    def __post_init__(self) -> None:
        self.remote = self.remote or str(self.folder / "remote")

    @property
    def store(self) -> ObjectStore:
        return open_store(self.remote)

    def objects(self) -> dict[str, bytes]:
        """Every object by key."""
        return {info.key: self.store.get(info.key) for info in self.store.list()}

    def __call__(
        self,
        *,
        apply: bool = True,
        store: ObjectStore | None = None,
        clock: Clock | None = None,
        expiration: int | None = None,
        as_of: int | None = TIMESTAMP + DAY // 2,
        producer_expiration: int | None = DAY,
        every_boundary: bool = False,
        replace: bool = False,
        sources: tuple[str, ...] = (),
        topic: re.Pattern[str] | None = None,
        topic_ids: dict[str, str] | None = None,
        check_crc: bool = True,
        now: int | None = None,
        scan: Scan = Scan.EXACT,
        beside: BesideBrokers = NO_BROKERS,
        told: StatedFacts = NOTHING_STATED,
        records: tuple[PartitionRecords, ...] | None = None,
    ) -> Ran:
        self.runs += 1
        run_id, now = f"run-{self.runs}", self.runs if now is None else now
        store = store or self.store
        options = ReplayOptions(expiration, as_of, producer_expiration, every_boundary, replace, scan)
        ran, number, tables = Ran(), self.tables.next_run(), self.tables

        def append(name: str, rows: list[Row]) -> None:
            if rows:
                commit = clock.step if clock is not None else lambda action: action()
                commit(lambda: getattr(tables, name).extend(as_table(name, rows)))
                ran.commits += 1

        def judged() -> list[Row]:
            expiry = BrokerExpiry(now, producer_expiration)
            task = JudgePartition(replace, expiry, scan is Scan.WINDOW, beside, apply)
            inputs = [fleet_joins.judge_input(key_of(row), tables) for row in ran.listed]
            return _rows(batch for rows in inputs if rows for batch in task(input_batches(rows)))

        found = discover(sources or (str(self.source),), topic)
        observe = Observe(RemoteLocation(store, self.layout), refuses_plaintext=True)
        look = ListPartitions(topic_ids or {}, observe, options.since(now), not tables.partitions)
        folders = [SourceFolder(*each, told, records or _records(found, each[1])) for each in found.folders]
        ran.listed = _rows(look(iter([FOLDER_ROWS.batch(folders)])))

        digest = options.digest(place=store.uri if apply else None)

        def look_for_changes() -> list[Row]:
            return [
                fleet_joins.partition_change(row, tables, options_digest=digest, check_crc=check_crc)
                for row in ran.listed
            ]

        ran.changes = look_for_changes()
        wanted = [{**change, **segment} for change in ran.changes for segment in change["wanted"]]
        batch = pa.RecordBatch.from_pylist(wanted, schema=WANTED)
        append("segments", _rows(DecodeSegments(check_crc, number)(iter([batch]))))
        ran.decoded = [(row["topic"], row["base_offset"]) for row in wanted]
        if any(row["not_read"] is not None for row in wanted):
            ran.changes = look_for_changes()
        ran.unread = [
            row
            for listed, change in zip(ran.listed, ran.changes, strict=True)
            for row in fleet_joins.unread_snapshots(listed, change, tables)
        ]
        answered = _rows(look_again(iter([pa.RecordBatch.from_pylist(ran.unread, schema=UNREAD)])))
        for change in ran.changes:
            change["is_changed"] |= any(key_of(row) == key_of(change) for row in answered)

        sink = StoredSnapshots(store, run_id, replace) if apply else None
        replay = ReplayPartition(options, sink, number, now, observe)
        for row, change in zip(ran.listed, ran.changes, strict=True):
            if change["is_changed"]:
                ran.appended += _rows(replay(input_batches(fleet_joins.replay_input(row, change, tables))))
        append("partitions", ran.appended)
        replayed = [key_of(change) for change in ran.changes if change["is_changed"]]
        ran.facts = [row for key in replayed for row in tables.facts(key)]
        append("remote_log_segments", fleet_joins.differences(ran.listed, tables.remote_log_segments, run=number))

        if apply:
            tierer = Tierer(run_id, now, warehouse=str(self.folder), wait=0, pause=lambda _: None)
            # The bytes of what was collected lie elsewhere.
            ready = [row for row in judged() if row["level"] == "READY" and row["log_dir"] not in found.collected]
            for row in (row for row in ran.listed if row["error"] is None):
                mine = [each for each in ready if key_of(each) == key_of(row)]
                rows = ready_rows(row, mine)
                ran.ready += rows
                batch = pa.RecordBatch.from_pylist(rows, schema=READY)
                ran.tiered += _rows(TierTask(RemoteLocation(store, self.layout), tierer)(iter([batch])))
            append("remote_log_segments", [{**row, "run": number} for row in ran.tiered])
        last = judged()
        ran.readiness = [{name: row[name] for name in READINESS.names} for row in last]
        keys = [key_of(row) for row in ran.listed]
        append("readiness", list(fleet_joins.news(keys, last, tables, run=number, now=now)))
        return ran


def _rows(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def as_table(name: str, rows: list[Row]) -> list[Row]:
    """The rows as the table gives them back."""
    return arrow_table(name, rows).to_pylist()


def arrow_table(name: str, rows: list[Row]) -> pa.Table:
    """Rows of `Tables` in the columns of the table."""
    return pa.Table.from_pylist(rows, schema=TABLES[name])


def ready_rows(listed: Row, ready: list[Row]) -> list[Row]:
    """Rows of tier_task.READY of JUDGED rows, as jobs.pipeline.tiering.ready_segments joins them."""
    files = {segment["base_offset"]: segment for segment in listed["segments"]}
    rows = []
    for row in ready:
        sizes = {name: size for name, size in files[row["base_offset"]].items() if name.endswith("_index_bytes")}
        rows.append({**row, **sizes})
    return rows
