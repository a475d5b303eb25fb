"""Functions that read the data of lost.html and failover.html from the tables of a warehouse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import CorruptDataError
from tiersnap.snapshot.gate.trusted import SnapshotVerdict
from tiersnap.snapshot.json_decoder import decoder
from tiersnap.snapshot.replay.partition_state import SnapshotAt
from tiersnap.snapshot.report.exactly_once import (
    MOST_ROWS,
    NO_FILE,
    Audit,
    AuditCount,
    AuditRow,
    Failover,
    NewestSnapshot,
    ReplicaWithoutProducers,
)
from tiersnap.snapshot.report.run_info import RunCounts, RunInfo
from tiersnap.snapshot.rows import Rows
from tiersnap.snapshot.tables.facts import FACT_COLUMNS, FactKind, StoredReplay, StoredResults, newest_results
from tiersnap.snapshot.tables.schema_parts import PARTITION_KEY
from tiersnap.snapshot.tables.table_format import START_ANEW

_MOST_SHOWN = 200  # characters of an error
_AUDIT_KEY = ("harm", "kind", "judgement")
# Columns of audit_findings that `audit_of_tables` needs.
AUDIT_COLUMNS = tuple(dict.fromkeys((*_AUDIT_KEY, *AuditRow.__slots__, "batches", *PARTITION_KEY, "run")))
# Columns of audits that `audit_of_tables` needs.
AUDITS_COLUMNS = (*PARTITION_KEY, "run", "damage_count")
# Findings of two audits are the same finding if they have equal values in these columns.
_SAME = (*PARTITION_KEY, "kind", "producer_id", "before_last_offset", "first_offset", "last_offset")
# The rows and columns of `partitions` that `failover_of` needs.
FAILOVER_KINDS = (FactKind.REPLAYED, FactKind.BOUNDARY, FactKind.GONE)
FAILOVER_COLUMNS = (*FACT_COLUMNS, *Rows(StoredReplay).names, *Rows(SnapshotAt).names)


@dataclass(frozen=True)
class LastSettings:
    """The settings of a recorded run that a report needs."""

    sources: tuple[str, ...]
    collected: Mapping[str, str]
    remote: str
    no_upload: bool
    options: Mapping[str, tuple[str, ...]]
    replicas_without_producers: tuple[
        ReplicaWithoutProducers, ...
    ]  # replicas without producers, as the last runs found them

    @classmethod
    def decode(cls, text: str, warehouse: str) -> LastSettings:
        """Return the settings in a row of `runs`.

        Raises:
            CorruptDataError: the text is not JSON of this version.
        """
        try:
            return decoder(cls).decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            why = f"this tiersnap cannot read the settings that the last run stored: {str(error)[:_MOST_SHOWN]}"
            raise CorruptDataError(f"{warehouse}/runs: {why}", hint=START_ANEW) from error


BEFORE_THE_FIRST = LastSettings((), {}, "", False, {}, ())


@dataclass(frozen=True, kw_only=True)
class LastRun(RunCounts):
    """The last run in the table `runs`. If the table is empty, all fields have their defaults."""

    run_id: str = ""
    settings: LastSettings = BEFORE_THE_FIRST

    def info(self, warehouse: str, source: str | None, remote: str | None, *, at: int, now: int) -> RunInfo:
        """Return the RunInfo of a new report about this run. It has no disks.

        Args:
            source, remote: locations for printed commands. They replace the locations of the run.
            at: time of the report, epoch ms.
            now: time of the verdicts, epoch ms.
        """
        settings = self.settings
        sources = (source,) if source else settings.sources
        counts = {each.name: getattr(self, each.name) for each in fields(RunCounts)}
        return RunInfo(
            **counts,
            run_id=self.run_id,
            started_at=at,
            finished_at=at,
            judged_at=None if now == at else now,
            source=", ".join(sources) or "LOGDIR",
            remote=remote or settings.remote,
            warehouse=warehouse,
            version=__version__,
            applied=bool(self.run_id) and not settings.no_upload,
            sources=sources,
            collected=settings.collected,
            options=settings.options,
        )


def worst_replicas_without_producers(*found: Iterable[ReplicaWithoutProducers]) -> tuple[ReplicaWithoutProducers, ...]:
    """Return at most MOST_ROWS replicas that lost producers, worst first.

    If `found` contains a replica twice, its last occurrence is used.
    """
    by_replica = {(each.topic, each.partition, each.log_dir): each for each in chain(*found)}
    worst = sorted(by_replica, key=lambda key: (-by_replica[key].count, key))
    return tuple(by_replica[key] for key in worst[:MOST_ROWS])


def failover_of(facts: pa.Table) -> Failover:
    """Return the verdicts on the newest snapshot file of each partition, from its last replay."""
    found = map(_newest_snapshot, newest_results(facts))
    return Failover.of(each for each in found if each is not None)


def _newest_snapshot(results: StoredResults) -> NewestSnapshot | None:
    """Return the newest snapshot of a partition, None if the partition was deleted."""
    if results.replayed is None:
        return None
    key = results.log_dir, results.topic, results.partition
    newest = next(filter(_has_file, reversed(results.snapshots.values())), None)
    if newest is None:
        return NewestSnapshot(*key, offset=None, found=NO_FILE)
    found = newest.comparison
    return NewestSnapshot(
        *key,
        newest.snapshot_offset,
        str(found.compared),
        found.lacking,
        found.differing,
        found.unexplained,
        found.explanation,
    )


def _has_file(found: SnapshotAt) -> bool:
    return found.comparison.compared is not SnapshotVerdict.MISSING


def audit_of_tables(findings: pa.Table, audits: pa.Table) -> Audit:
    """Return the newest audit of each replica, with each finding once.

    An audit may cover only some topics, so the result also has the findings of earlier audits for all other topics. If
    an audit met damage in a log, it did not read the rest of this log. In that case the result also has the findings of
    the log's earlier audits.

    Args:
        findings: rows of audit_findings with AUDIT_COLUMNS.
        audits: rows of audits with AUDITS_COLUMNS.
    """
    table = _newest(findings, audits)
    groups = table.group_by(list(_AUDIT_KEY)).aggregate([("kind", "count"), ("batches", "sum")])
    counts = groups.rename_columns([*_AUDIT_KEY, "findings", "batches"]).to_pylist()
    is_harmful = pc.not_equal(table["harm"], pa.scalar("NONE"))
    parts = (table.filter(which).slice(0, MOST_ROWS) for which in (is_harmful, pc.invert(is_harmful)))
    worst = pa.concat_tables(parts).to_pylist()
    return Audit.of(msgspec.convert(counts, list[AuditCount]), msgspec.convert(worst, list[AuditRow]))


def _newest(findings: pa.Table, audits: pa.Table) -> pa.Table:
    whole = audits.filter(pc.equal(audits["damage_count"].fill_null(pa.scalar(0)), pa.scalar(0)))
    since = whole.group_by(list(PARTITION_KEY)).aggregate([("run", "max")])
    joined = findings.join(since, keys=list(PARTITION_KEY), join_type="left outer")
    kept = joined.filter(pc.greater_equal(joined["run"], joined["run_max"].fill_null(pa.scalar(0))))
    return _each_once(kept.drop_columns("run_max"))


def _each_once(findings: pa.Table) -> pa.Table:
    """Return each finding once, from the last run that has it."""
    # Arrow's join does not match nulls, so they become -1.
    columns = {name: findings[name] for name in _SAME}
    numbers = {name for name, each in columns.items() if pa.types.is_integer(each.type)}
    known = columns | {name: columns[name].fill_null(pa.scalar(-1)) for name in numbers}
    runs = pa.table({**known, "run": findings["run"], "row": pa.array(range(findings.num_rows), pa.int64())})
    last = runs.group_by(list(_SAME)).aggregate([("run", "max")])
    joined = runs.join(last, keys=list(_SAME), join_type="inner")
    rows = joined.filter(pc.equal(joined["run"], joined["run_max"]))["row"]
    return findings.take(rows.combine_chunks().sort())
