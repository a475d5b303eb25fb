"""All stages in order, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.jobs.engine import Engine
from tiersnap.jobs.pipeline import tiering
from tiersnap.jobs.pipeline.carrying import Carried, carry_changed
from tiersnap.jobs.pipeline.cluster_records import record_clusters
from tiersnap.jobs.pipeline.decoding import Decoded, decode_changed
from tiersnap.jobs.pipeline.listing import Listing, list_sources
from tiersnap.jobs.pipeline.one_run import bind_remote, only_run
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.snapshot_objects import StoredSnapshots
from tiersnap.jobs.pipeline.tiering import Tiered
from tiersnap.jobs.pipeline.verdicts import keep_verdicts, mark_tiered
from tiersnap.jobs.warehouse import Warehouse
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.gate.readiness import Verdict


@dataclass(frozen=True)
class Outcome:
    """What a run found and did.

    Attributes:
        readiness: rows of READINESS as they stand after the run.
        commits: Delta versions committed.
        seconds: by stage.
    """

    listing: Listing
    decoded: Decoded
    carried: Carried
    tiered: Tiered
    readiness: pa.Table
    commits: int
    seconds: dict[str, float]

    @property
    def errors(self) -> list[str]:
        """What could not be written; the next run tries again."""
        return [*self.carried.errors, *(self.tiered.errors or ())]

    @property
    def findings(self) -> list[dict[str, object]]:
        """Damage in the log directories and in the partitions that were carried."""
        of_directories = [finding.as_dict() for log_dir in self.listing.log_dirs for finding in log_dir.findings]
        return [*of_directories, *self.carried.findings]

    @property
    def is_transient(self) -> bool:
        """Whether all errors may pass, so that the same command may succeed later."""
        return self.carried.is_transient and self.tiered.is_transient

    @property
    def did_nothing(self) -> bool:
        """Whether the run wrote no object and committed no version."""
        return self.commits == 0 and not self.carried.written and not self.tiered.segments

    def count(self, verdict: Verdict) -> int:
        """Segments of a verdict."""
        return int(pc.sum(pc.equal(self.readiness["verdict"], str(verdict))).as_py() or 0)


def run_stages(
    engine: Engine,
    settings: RunSettings,
    *,
    store: ObjectStore | None,
    layout: Layout,
    talk: Callable[[str], None],
) -> Outcome:
    """List, decode, carry, tier; `talk` hears of each stage. Without `settings.apply` nothing reaches the store.

    Raises:
        TransientError: another run is at work on the warehouse.
        UsageError: the warehouse belongs to another store, or two sources hold the same partition.
        SourceNotFoundError, NotALogDirError: a source is none.
    """
    with only_run(settings.warehouse):
        return _run_stages(engine, settings, store, layout, talk)


def _run_stages(
    engine: Engine,
    settings: RunSettings,
    store: ObjectStore | None,
    layout: Layout,
    talk: Callable[[str], None],
) -> Outcome:
    warehouse = Warehouse(settings.warehouse, settings.run_id)
    seconds: dict[str, float] = {}

    def timed(name: str, started: float) -> None:
        seconds[name] = time.monotonic() - started

    started = time.monotonic()
    listing = list_sources(engine, settings)
    timed("list", started)
    if store is not None:
        bind_remote(warehouse, store, layout, apply=settings.apply)
    partitions = listing.partitions
    talk(
        f"listed {pc.sum(pc.list_value_length(partitions['segments'])).as_py() or 0} segments "
        f"of {partitions.num_rows} partitions"
    )

    started = time.monotonic()
    decoded = decode_changed(engine, warehouse, partitions, settings)
    timed("decode", started)
    talk(f"decoded {decoded.count} segments that were new or had changed")

    started = time.monotonic()
    remote = tiering.remote_segments(warehouse)
    tiered = Tiered()
    if store is not None and settings.apply:
        resumed = tiering.resume(engine, warehouse, remote, partitions, store, layout, settings)
        if resumed.finished or resumed.cleaned or resumed.errors:
            talk(f"of a run that was cut short: {resumed.finished} copies finished, {resumed.cleaned} cleaned")
            remote = tiering.remote_segments(warehouse)
        tiered = resumed
    done = tiering.finished(remote)
    sink = None
    if store is not None and settings.apply:
        carry = settings.carry
        sink = StoredSnapshots(
            store,
            settings.run_id,
            settings.now if carry.as_of is None else carry.as_of,
            carry.expiration,
            carry.replace,
        )
    carried = carry_changed(engine, warehouse, partitions, decoded, done, sink, settings, listing)
    timed("carry", started)
    talk(f"carried {carried.partitions} partitions, wrote {carried.written} snapshots")

    started = time.monotonic()
    readiness = mark_tiered(carried.readiness, done)
    if store is not None and settings.apply:
        record_clusters(store, settings.sources, listing.log_dirs, readiness, done)
        copied = tiering.tier_ready(
            engine, warehouse, partitions, readiness, carried.snapshots, store, layout, settings, tiered.held
        )
        tiered.segments, tiered.bytes = copied.segments, copied.bytes
        tiered.errors = [*(tiered.errors or ()), *(copied.errors or ())]
        tiered.is_transient = tiered.is_transient and copied.is_transient
        if copied.segments:
            readiness = mark_tiered(readiness, tiering.finished(tiering.remote_segments(warehouse)))
        talk(f"tiered {copied.segments} segments")
    keep_verdicts(warehouse, readiness, listing, settings)
    timed("tier", started)
    return Outcome(listing, decoded, carried, tiered, readiness, warehouse.commits, seconds)
