"""What `restore` says: rows for programs, sentences for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from tiersnap.jobs.again import again
from tiersnap.jobs.output import Output
from tiersnap.remote_storage.restore.carry_out import Restored
from tiersnap.remote_storage.restore.plan import RestorePlan
from tiersnap.remote_storage.restore.target import Target
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.log.restored_log import OpenTransaction, RestoredLog
from tiersnap.snapshot.units import count_of, human_bytes

_MOST_NAMED = 10
_OF_SEGMENT = ("partition", "base_offset", "next_base_offset", "bytes", "segment_id", "action")
_OF_PARTITION = (
    *("partition", "action", "segments", "size", "log_start_offset", "log_end_offset"),
    *("last_stable_offset", "producers", "open_transactions"),
)


def tell_target(output: Output, target: Target, topic: str, *, topic_is_checked: bool) -> None:
    """What is odd about the log directory, and what nobody was asked."""
    if not topic_is_checked:
        output.talk(f"{topic}: topic existence was not checked; --bootstrap-server HOST:PORT asks its cluster")
    if target.meta.is_kraft and target.meta.directory_id is None:
        output.talk(
            f"{target.path}/meta.properties has no directory.id: a broker makes a new one, and then its partitions "
            "have no leader until its second start; put in the one that the directory had"
        )


def show_plans(output: Output, plans: Sequence[RestorePlan], *, segments: bool) -> None:
    """What would be restored; with `segments` a row a segment."""
    _rows(output, [(plan, None) for plan in plans], segments=segments)
    for plan in plans:
        tell_plan(output, plan)
        tell_transactions(output, plan.folder.name, plan.told_open)
    output.talk(f"nothing was written; next: stop the broker, then {again('--apply')}")


def show_restored(output: Output, restored: Restored, *, segments: bool) -> None:
    """What was restored, and what failed.

    Raises:
        TiersnapError: what failed, where nothing was restored.
    """
    for left in restored.left:
        output.warn(
            f"{left} is left, and no broker starts while it is there: run restore again, which goes on with it, or "
            "delete it"
        )
    failure = restored.failure
    if failure is not None and not restored.done:
        raise failure
    # One document: what was restored before, and what failed.
    _rows(output, restored.done, segments=segments, errors=[] if failure is None else [failure])
    if failure is not None:
        output.error_text(failure)
        return
    for plan, found in restored.done:
        tell_done(output, plan, found)


def _rows(
    output: Output,
    results: Sequence[tuple[RestorePlan, RestoredLog | None]],
    *,
    segments: bool,
    errors: Sequence[TiersnapError] = (),
) -> None:
    if segments:
        rows = [row for plan, _ in results for row in segment_rows(plan)]
    else:
        rows = [partition_row(plan, found) for plan, found in results]
    output.row_dicts("restore", rows, columns=_OF_SEGMENT if segments else _OF_PARTITION, errors=errors)


def partition_row(plan: RestorePlan, found: RestoredLog | None) -> dict[str, object]:
    """One row a partition; `found` is None for a plan."""
    chain, opened = plan.folder.chain, plan.told_open if found is None else found.open_transactions
    stable = min([chain.end_offset, *(each.first_offset for each in opened)])
    return {
        "partition": plan.folder.name,
        "topic_id": plan.folder.topic_id,
        "cluster_id": plan.source_cluster,
        "topic_is_checked": plan.topic_is_checked,
        "action": plan.action,
        "is_done": found is not None,
        "segments": len(chain.pieces),
        "bytes": chain.size,
        "size": human_bytes(chain.size),
        "log_start_offset": chain.log_start_offset,
        "log_end_offset": chain.end_offset,
        "last_stable_offset": max(stable, chain.log_start_offset),
        "leader_epochs": [list(entry) for entry in chain.leader_epochs],
        "producer_state": "empty" if plan.destination.empty_state else "keep",
        "producers": None if found is None else found.producers,
        "largest_producer_id": None if found is None else found.largest_producer_id,
        "snapshots": None if found is None else found.snapshots,
        "rebuilt_snapshots": None if found is None else [offset for offset, _ in found.rebuilt_snapshots],
        "transaction_indexes": None if found is None else found.transaction_indexes,
        "open_transactions": len(opened),
        "transactions": [asdict(each) for each in opened],
        "doubts": None if found is None else found.doubts,
        "left_out": [asdict(each) for each in chain.left_out],
    }


def segment_rows(plan: RestorePlan) -> Iterator[dict[str, object]]:
    """A row a segment to be restored, then one a copy that is left out."""
    for piece in plan.folder.chain.pieces:
        yield {
            "partition": plan.folder.name,
            "base_offset": piece.start_offset,
            "next_base_offset": piece.end_offset,
            "bytes": piece.copy.metadata.segment_size,
            "segment_id": piece.copy.segment_id,
            "action": "FETCH" if piece.is_whole else "FETCH, CUT",
        }
    for copy in plan.folder.chain.left_out:
        yield {
            "partition": plan.folder.name,
            "base_offset": copy.start_offset,
            "next_base_offset": copy.end_offset,
            "bytes": None,
            "segment_id": copy.segment_id,
            "action": f"LEFT OUT: {copy.reason}",
        }


def tell_plan(output: Output, plan: RestorePlan) -> None:
    """What a person must know of a partition before it is restored; open transactions are told apart."""
    folder, chain, name = plan.folder, plan.folder.chain, plan.folder.name
    if chain.missing_below is not None:
        output.talk(
            f"{name}: offsets below {chain.missing_below} are not in remote storage ({_taken_by(plan)}); the log will "
            "start there"
        )
    cut = sum(not piece.is_whole for piece in chain.pieces)
    if cut:
        output.talk(f"{name}: {count_of(cut, 'segment')} cut at a batch, for others overlap; the indexes are made anew")
    for copy in chain.left_out[:_MOST_NAMED]:
        output.talk(f"{name}: copy {copy.segment_id} from offset {copy.start_offset} is left out: {copy.reason}")
    if len(chain.left_out) > _MOST_NAMED:
        output.talk(f"{name}: and {count_of(len(chain.left_out) - _MOST_NAMED, 'copy', 'copies')} more: see --segments")
    for left in plan.leftovers:
        output.talk(f"{name}: {left} will be deleted: an earlier restore of other segments left it")
    if plan.destination.empty_state and plan.destination.is_same_cluster:
        output.talk(
            f"{name}: with --producer-state empty whatever a producer sends again is appended a second time, and "
            "producers that were fenced are no longer known"
        )
    if not plan.destination.is_same_cluster:
        _tell_other_cluster(output, plan)
    if folder.topic_id != chain.pieces[0].copy.metadata.id.topic_id:
        output.talk(f"{name}: under the topic id {folder.topic_id} a broker does not find the remote segments it had")


def _taken_by(plan: RestorePlan) -> str:
    retention = "retention deletes the oldest segments"
    return retention if plan.topic_is_checked else f"{retention}, and the deletion of a topic all"


def tell_done(output: Output, plan: RestorePlan, found: RestoredLog) -> None:
    """What a person must know of a partition that was restored."""
    chain, name = plan.folder.chain, plan.folder.name
    output.talk(
        f"{name}: offsets {chain.log_start_offset} to {chain.end_offset - 1} are in place, every batch checked; "
        f"{count_of(found.snapshots, 'snapshot')} ({found.snapshots - len(found.rebuilt_snapshots)} of the tier, "
        f"{len(found.rebuilt_snapshots)} made from the log), "
        f"{count_of(found.transaction_indexes, 'transaction index', 'transaction indexes')}"
    )
    for doubt in found.doubts[:_MOST_NAMED]:
        output.warn(f"{name}: {doubt}")
    if found.doubts:
        then = "" if plan.destination.empty_state else "; the broker is to check every segment itself at its next start"
        output.warn(f"{name}: the log settled {count_of(len(found.doubts), 'contradiction')} in the tier{then}")
    if not plan.destination.is_same_cluster:
        if not plan.destination.empty_state:
            output.warn(
                f"{name}: the largest restored producer id is {found.largest_producer_id}: the cluster's next producer "
                "id must be above it before anybody produces"
            )
        output.talk(
            f"{name}: its batches carry leader epochs up to {found.largest_leader_epoch}. Where the topic's leader "
            "epoch in this cluster is lower, the broker cuts its leader epochs: consumers read on, but remote "
            "segments registered under the old epochs are not reachable"
        )
    tell_transactions(output, name, found.open_transactions)


def _tell_other_cluster(output: Output, plan: RestorePlan) -> None:
    name = plan.folder.name
    output.talk(f"{name}: comes from cluster {plan.source_cluster}, to be {plan.folder.topic_id} in another")
    if plan.destination.empty_state:
        output.talk(
            f"{name}: no producers are restored, on this replica. A follower that copies the log folds them from it: "
            "with more than one replica raise the cluster's next producer id above the restored ones instead"
        )


def tell_transactions(output: Output, name: str, opened: tuple[OpenTransaction, ...]) -> None:
    """What pins the last stable offset, and how that ends."""
    topic, _, partition = name.rpartition("-")
    for each in opened[:_MOST_NAMED]:
        output.warn(
            f"{name}: the transaction of producer {each.producer_id} (epoch {each.producer_epoch}) from offset "
            f"{each.first_offset} has no end in the restored log: read_committed stops there. It ends when its "
            "transactional producer ends its next transaction here, or by kafka-transactions abort --topic "
            f"{topic} --partition {partition} --start-offset {each.first_offset}"
        )
    if len(opened) > _MOST_NAMED:
        output.warn(f"{name}: and {count_of(len(opened) - _MOST_NAMED, 'open transaction')} more: see --output json")
