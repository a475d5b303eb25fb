"""`tiersnap restore`: rebuild the folder of a partition from its remote segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import Meta

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again, command_place
from tiersnap.jobs.cli.option_types import LocalPath, once
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.remote_storage.restore.request import LeftOutCopy, RestoreAction, RestoreRequest
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.formats.checkpoints import LeaderEpochs
from tiersnap.snapshot.replay.restored_kinds import RestoredFiles, RestoredTransaction
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.remote_storage.restore.restore import Restored
    from tiersnap.remote_storage.restore.restore_plan import RestorePlan
    from tiersnap.remote_storage.restore.target import Target
    from tiersnap.snapshot.replay.restored_log import RestoredLog

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """A partition of `restore`. In a plan, `files` is null."""

    COLUMNS: ClassVar = {
        "partition": "partition",
        "action": "action",
        "segments": "segments",
        "size": "size",
        "log_start_offset": "log start offset",
        "log_end_offset": "log end offset",
        "last_stable_offset": "last stable offset",
        "producers": "producers",
        "opened": "open transactions",
    }
    partition: str
    topic_id: str
    cluster_id: str | None
    topic_is_checked: bool
    action: RestoreAction
    is_done: bool
    segments: int
    bytes: int
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    leader_epochs: Annotated[LeaderEpochs, Meta(description="pairs of leader epoch and start offset")]
    producer_state: str
    open_transactions: tuple[RestoredTransaction, ...]
    files: RestoredFiles | None
    left_out: tuple[LeftOutCopy, ...]

    @property
    def size(self) -> str:
        """Return `bytes` with a unit, for people."""
        return human_bytes(self.bytes)

    @property
    def opened(self) -> int:
        """Return the number of open transactions."""
        return len(self.open_transactions)


@dataclass(frozen=True, slots=True)
class RestoredSegment:
    """A row of `restore --segments`: a restored segment, or a remote segment that is left out."""

    COLUMNS: ClassVar = ("partition", "base_offset", "next_base_offset", "size_bytes", "segment_id", "action")
    partition: str
    base_offset: int
    next_base_offset: int | None
    size_bytes: int | None
    segment_id: str
    action: str


@command(RestoredPartition, RestoredSegment)
@opt.remote_option
@click.option("--to", "logdir", required=True, type=LocalPath(file_okay=False), help="Entry of the broker's log.dirs.")
@opt.as_one(
    "asked",
    RestoreRequest,
    once("--topic", help="Topic name. Restore all partitions of the topic that are in remote storage."),
    opt.partitions_option("Restore only this partition; repeatable, for partitions of one topic."),
    once("--topic-id", help="Topic id in remote storage, if the topic has segments under several ids."),
    click.option("--layout", type=click.Choice(opt.LAYOUTS), help="Layout to read, if segments exist in both layouts."),
    once("--cluster-id", help="Id of the cluster that wrote the segments; needed if no run recorded the id."),
    once(
        "--as-topic-id",
        help="Topic id in the cluster of the target.  [default: the topic id in remote storage]",
    ),
    once(
        "--producer-state",
        type=click.Choice(("keep", "empty")),
        help="keep: keep all producers. empty: keep only producers with open transactions. If the target is another "
        "cluster, you must choose: `keep` is safe only if the target cluster has no producers with the same "
        "ids.  [default in the same cluster: keep]",
    ),
    once("--log-start", type=int, help="Log start offset of one partition.  [default: the first remote offset]"),
    once(
        "--until",
        type=int,
        help="End offset (exclusive) of one partition's log. Needed if the newer segments cannot be used.",
    ),
    once(
        "--without",
        multiple=True,
        metavar="SEGMENT_ID",
        help="Do not use this remote segment; repeatable.",
    ),
    click.option(
        "--unpublished",
        is_flag=True,
        help="Restore unpublished segments too. With --bootstrap-server: segments without a record in the cluster. "
        "Without --bootstrap-server: segments that tiersnap uploaded.",
    ),
    opt.broker_expiry_options,
)
@click.option("--segments", is_flag=True, help="Print a row per segment, not per partition.")
@opt.cluster_options(
    "Broker of the cluster that wrote the segments. Segments that the cluster deleted are not restored."
)
@opt.store_options
@opt.rate_option("Limit of bytes fetched per second")
@opt.apply_option("Write to the log directory; the broker must be stopped.")
def restore(
    output: Output,
    remote: str,
    logdir: Path,
    asked: RestoreRequest,
    segments: bool,
    cluster: opt.Cluster | None,
    stores: opt.StoreSettings,
    rate: int | None,
    apply: bool,
) -> int:
    r"""Rebuild partitions of a lost disk from their remote segments: logs, indexes, snapshots, epochs, checkpoints.

    tiersnap restore --remote s3://bucket/tiers --to /new-disk/kafka \
      --topic orders --bootstrap-server broker-1:9092
    tiersnap restore --remote s3://bucket/tiers --to /new-disk/kafka \
      --partition orders-0 --unpublished --apply

    The command prints the plan; --apply writes the files. Every batch is verified, and missing files are built from the
    log. The folder gets its final name after all files are on disk. If the command is killed, the next call continues.

    The restored log ends with the last tiered segment. The partition must not exist in another log directory of the
    broker.
    """
    from tiersnap.remote_storage.cluster.cluster_records import read_published
    from tiersnap.remote_storage.restore.find_topic import find_topic
    from tiersnap.remote_storage.restore.restore import carry_out, make_room
    from tiersnap.remote_storage.restore.restore_plan import plan_topic
    from tiersnap.remote_storage.restore.target import open_target
    from tiersnap.remote_storage.stores.open_store import open_store
    from tiersnap.remote_storage.stores.paced_store import paced
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.lock import locked

    store = paced(open_store(remote, stores, writes=False), rate)
    with Progress(output, "planning"):
        found = find_topic(store, asked)
        target = open_target(logdir, found[0].cluster_id)
        _tell_target(output, target, asked.name, topic_is_checked=cluster is not None)
        wanted = [each.listed.partition for each in found]
        published = None
        if cluster is not None:
            published = read_published(cluster, wanted, unpublished=asked.unpublished)
        plans = plan_topic(store, target, found, asked, published)
    if not apply:
        _show_plans(output, plans, segments=segments)
        return exit_code_of(())
    with locked(target.path), Progress(output, "restoring", len(plans)) as progress:
        make_room(target, plans)
        done = carry_out(store, target, progress.watch_done(plans), begin=partial(_tell_plan, output), talk=output.talk)
    _show_restored(output, done, segments=segments)
    return exit_code_of([done.failure] if done.failure else [])


def _tell_target(output: Output, target: Target, topic: str, *, topic_is_checked: bool) -> None:
    """Print a warning if no cluster confirmed that the topic exists, or if the log directory has no directory.id."""
    if not topic_is_checked:
        output.talk(
            f"{topic}: tiersnap did not check whether the topic still exists; to check, add --bootstrap-server "
            "HOST:PORT of its cluster"
        )
    if target.meta.is_kraft and target.meta.directory_id is None:
        output.talk(
            f"{target.path}/meta.properties has no directory.id: the broker would create a new id, and the "
            "directory's partitions would have no leader until the broker's second start; write the earlier "
            "directory.id into the file"
        )


def _show_plans(output: Output, plans: Sequence[RestorePlan], *, segments: bool) -> None:
    """Print the plans and their notes. A plan is one row, or with `segments` one row per segment."""
    _rows(output, [(plan, None) for plan in plans], segments=segments)
    for plan in plans:
        _tell_plan(output, plan)
        _print_transactions(output, plan.folder.name, plan.expected_open)
    output.talk(f"nothing was written; next: stop the broker, then {again('--apply')}")


def _show_restored(output: Output, restored: Restored, *, segments: bool) -> None:
    """Print the restored partitions. If a failure ended the command, print it, or raise it if nothing was restored."""
    for left in restored.left:
        output.warn(
            f"{left} is incomplete, and no broker starts while this folder exists: run restore again to finish "
            "it, or delete the folder"
        )
    failure = restored.failure
    if failure is None:
        _rows(output, restored.done, segments=segments)
    elif not restored.done:
        raise failure
    else:
        # The JSON document contains the restored partitions and the failure.
        _rows(output, restored.done, segments=segments, errors=[failure])
        output.error_text(failure)
        return
    for plan, found in restored.done:
        _tell_done(output, plan, found)


def _rows(
    output: Output,
    results: Sequence[tuple[RestorePlan, RestoredLog | None]],
    *,
    segments: bool,
    errors: Sequence[TiersnapError] = (),
) -> None:
    if segments:
        rows: list[RestoredSegment] = []
        for plan, _ in results:
            rows += _segments(plan)
        output.rows(RestoredSegment, rows, errors=errors)
    else:
        output.rows(RestoredPartition, starmap(_partition, results), errors=errors)


def _partition(plan: RestorePlan, found: RestoredLog | None) -> RestoredPartition:
    """Return the row of a partition; `found` is None for a plan."""
    chain = plan.folder.chain
    opened = plan.expected_open if found is None else found.open_transactions
    stable = chain.end_offset
    for each in opened:
        stable = min(stable, each.first_offset)
    return RestoredPartition(
        partition=plan.folder.name,
        topic_id=plan.folder.topic_id,
        cluster_id=plan.source_cluster,
        topic_is_checked=plan.topic_is_checked,
        action=plan.action,
        is_done=found is not None,
        segments=len(chain.pieces),
        bytes=chain.size,
        log_start_offset=chain.log_start_offset,
        log_end_offset=chain.end_offset,
        last_stable_offset=max(stable, chain.log_start_offset),
        leader_epochs=chain.leader_epochs,
        producer_state="empty" if plan.destination.empty_state else "keep",
        open_transactions=opened,
        files=None if found is None else found.files,
        left_out=chain.left_out,
    )


def _segments(plan: RestorePlan) -> Iterator[RestoredSegment]:
    """Yield a row for each segment to restore, then a row for each remote segment that is left out."""
    name, chain = plan.folder.name, plan.folder.chain
    for piece in chain.pieces:
        size = piece.copy.metadata.segment_size
        action = "FETCH" if piece.is_whole else "FETCH, CUT"
        yield RestoredSegment(name, piece.start_offset, piece.end_offset, size, piece.copy.segment_id, action)
    for copy in chain.left_out:
        action = f"LEFT OUT: {copy.reason}"
        yield RestoredSegment(name, copy.base_offset, copy.next_base_offset, None, copy.segment_id, action)


def _tell_plan(output: Output, plan: RestorePlan) -> None:
    """Print the notes about a planned partition, without the notes about open transactions."""
    folder, chain, name = plan.folder, plan.folder.chain, plan.folder.name
    if chain.missing_below is not None:
        output.talk(
            f"{name}: the restored log will start at offset {chain.missing_below}, because remote storage has no "
            f"lower offsets ({_taken_by(plan)})"
        )
    cut = sum(not piece.is_whole for piece in chain.pieces)
    if cut:
        output.talk(
            f"{name}: {count_of(cut, 'segment')} will be cut between two batches, because remote segments "
            "overlap; their indexes are rebuilt"
        )
    for copy in chain.left_out[:_MOST_NAMED]:
        output.talk(
            f"{name}: remote segment {copy.segment_id} from offset {copy.base_offset} is not used: {copy.reason}"
        )
    if len(chain.left_out) > _MOST_NAMED:
        output.talk(
            f"{name}: {count_of(len(chain.left_out) - _MOST_NAMED, 'more segment is', 'more segments are')} not "
            "used: --segments lists all"
        )
    for left in plan.leftovers:
        output.talk(f"{name}: {left} will be deleted: an earlier restore of other segments left the folder")
    if plan.destination.empty_state and plan.destination.is_same_cluster:
        output.talk(
            f"{name}: because of --producer-state empty the broker will write retries of old batches a second time, "
            "and accept fenced producers again"
        )
    if not plan.destination.is_same_cluster:
        _tell_other_cluster(output, plan)
    if folder.topic_id != chain.pieces[0].copy.metadata.id.topic_id:
        output.talk(
            f"{name}: the folder gets the new topic id {folder.topic_id}, so brokers will not find the remote "
            "segments of the old topic id"
        )


def _taken_by(plan: RestorePlan) -> str:
    retention = "retention deletes the oldest segments"
    return retention if plan.topic_is_checked else f"{retention}, and brokers delete all segments of a deleted topic"


def _tell_done(output: Output, plan: RestorePlan, found: RestoredLog) -> None:
    """Print the notes about a restored partition."""
    chain, name, files = plan.folder.chain, plan.folder.name, found.files
    output.talk(
        f"{name}: offsets {chain.log_start_offset} to {chain.end_offset - 1} are restored, and every batch was "
        f"checked; {count_of(files.snapshots, 'snapshot')} ({files.snapshots - len(files.rebuilt_snapshots)} from "
        f"remote storage, {len(files.rebuilt_snapshots)} computed from the log), "
        f"{count_of(files.transaction_indexes, 'transaction index', 'transaction indexes')}"
    )
    for doubt in files.doubts[:_MOST_NAMED]:
        output.warn(f"{name}: {doubt}")
    if files.doubts:
        found_doubts = count_of(len(files.doubts), "contradiction")
        told = f"{name}: {found_doubts} between remote objects and the log: the restored files agree with the log"
        if not plan.destination.empty_state:
            told += "; the broker verifies every segment at its next start"
        output.warn(told)
    if not plan.destination.is_same_cluster:
        if not plan.destination.empty_state:
            output.warn(
                f"{name}: before a producer starts, raise the cluster's next producer id above "
                f"{files.largest_producer_id}, the largest restored producer id"
            )
        output.talk(
            f"{name}: the restored batches have leader epochs up to {files.largest_leader_epoch}. If the topic's "
            "leader epoch in this cluster is lower, the broker truncates its list of leader epochs: consumers "
            "continue, but remote segments with the old epochs cannot be read"
        )
    _print_transactions(output, name, found.open_transactions)


def _tell_other_cluster(output: Output, plan: RestorePlan) -> None:
    name = plan.folder.name
    output.talk(
        f"{name}: the segments come from cluster {plan.source_cluster}; the restored folder gets the topic id "
        f"{plan.folder.topic_id} of another cluster"
    )
    if plan.destination.empty_state:
        output.talk(
            f"{name}: this replica gets no producers, but followers would compute producers from the copied log. If "
            "the topic has several replicas, do not use --producer-state empty: raise the cluster's next producer id "
            "above the restored ids"
        )


def _print_transactions(output: Output, name: str, opened: tuple[RestoredTransaction, ...]) -> None:
    """Print the open transactions, which hold back the last stable offset, and the commands that abort them."""
    from tiersnap.snapshot.gate.kafka_tools import abort_transaction

    topic, _, partition = name.rpartition("-")
    place = command_place()
    for each in opened[:_MOST_NAMED]:
        output.warn(
            f"{name}: the transaction of producer {each.producer_id} (epoch {each.producer_epoch}) from offset "
            f"{each.first_offset} has no end in the restored log. Consumers with read_committed stop at this offset "
            "until the same transactional producer ends a transaction in this partition. To abort the transaction: "
            + place.text(abort_transaction(topic, int(partition), "--start-offset", str(each.first_offset)))
        )
    if len(opened) > _MOST_NAMED:
        output.warn(f"{name}: {count_of(len(opened) - _MOST_NAMED, 'open transaction')} more: --output json prints all")
