"""Stage 1: what is in the log directories."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tiersnap.jobs.engine import Engine, LocalEngine
from tiersnap.jobs.pipeline.arrow_plans import key_of
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.errors import NotALogDirError, UsageError
from tiersnap.snapshot.log.log_dir import LogDir, open_log_dir, split_folder_name
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.partition_rows import PARTITIONS
from tiersnap.snapshot.stages.listing import PLAN, ListPartitions

FOLDERS_PER_TASK = 500


@dataclass(frozen=True)
class Listing:
    """The partitions (PARTITIONS rows) and the directories they were found in."""

    partitions: pa.Table
    log_dirs: tuple[LogDir, ...]


def list_sources(engine: Engine, settings: RunSettings) -> Listing:
    """List every source.

    Raises:
        SourceNotFoundError, NotALogDirError: a source is none.
        UsageError: two sources hold the same partition.
    """
    log_dirs = [open_log_dir(source) for source in settings.sources]
    plans: list[dict[str, object]] = []
    for source, log_dir in zip(settings.sources, log_dirs, strict=True):
        folders = [name for name in log_dir.folders if _is_selected(name, settings)]
        plans.extend(
            {"log_dir": source, "folders": folders[start : start + FOLDERS_PER_TASK]}
            for start in range(0, len(folders), FOLDERS_PER_TASK)
        )
    if not plans:
        raise NotALogDirError(
            f"{', '.join(settings.sources)}: no partition matches --topic",
            hint="--topic is a regular expression for the whole topic name, as in --topic 'orders.*'",
        )
    task = ListPartitions(
        {source: log_dir.checkpoints for source, log_dir in zip(settings.sources, log_dirs, strict=True)}
    )
    # A few folders are listed sooner than a cluster can be asked to.
    engine = LocalEngine(1) if len(plans) == 1 else engine
    partitions = engine.map("list", pa.Table.from_pylist(plans, schema=PLAN), task, PARTITIONS)
    if not pc.any(pc.greater(pc.list_value_length(partitions["segments"]), 0)).as_py() and not any(
        partitions["findings"].combine_chunks().flatten()
    ):
        raise NotALogDirError(
            f"{', '.join(settings.sources)}: no segments in any of the partitions",
            hint="name one entry of log.dirs, not the folder above it",
        )
    _refuse_replicas(partitions)
    return Listing(_with_topic_ids(partitions, settings.topic_ids), tuple(log_dirs))


def _is_selected(folder: str, settings: RunSettings) -> bool:
    name = split_folder_name(folder)
    if name is None or not matches_topic(name[0], settings.topic):
        return False
    return settings.partitions is None or name in settings.partitions


def _refuse_replicas(partitions: pa.Table) -> None:
    counts = pc.value_counts(key_of(partitions, ("topic", "partition")))
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        name = "-".join(twice[0]["values"].as_py().split("\x1f"))
        raise UsageError(
            f"{name} is in more than one source: {len(twice)} partitions are",
            hint="two replicas of a partition would be tiered twice: run each broker with its own --warehouse, "
            "or give the leader's log directories only",
        )


def _with_topic_ids(partitions: pa.Table, topic_ids: dict[str, str]) -> pa.Table:
    if not topic_ids:
        return partitions
    known = pa.array(list(topic_ids.values()), pa.string())
    given = known.take(pc.index_in(partitions["topic"].combine_chunks(), value_set=pa.array(list(topic_ids))))
    column = pc.coalesce(partitions["topic_id"].combine_chunks(), given)
    return partitions.set_column(partitions.schema.get_field_index("topic_id"), PARTITIONS.field("topic_id"), column)
