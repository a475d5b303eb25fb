"""`tiersnap restore`: a partition's folder, rebuilt from remote storage alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.cluster import source_cluster_options
from tiersnap.jobs.options.once import LAYOUTS, once
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.options.remote import rate_option, s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.restore_tell import partition_row, segment_rows, tell_done, tell_plan, tell_transactions
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster_record import read_cluster_id
from tiersnap.remote_storage.layouts.keys import ObjectKeys
from tiersnap.remote_storage.restore.folder import build_folder, compare_folder, discard, forget_marker
from tiersnap.remote_storage.restore.plan import (
    RestoreAction,
    RestorePlan,
    find_partitions,
    known_log_start,
    plan_pieces,
    plan_restore,
)
from tiersnap.remote_storage.restore.published import read_published
from tiersnap.remote_storage.restore.target import PRODUCER_STATES, Target, choose_destination, open_target
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.paced_store import paced
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, TiersnapError, TransientError, UsageError
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.restored_log import RestoredLog
from tiersnap.snapshot.units import human_bytes

_SPARE_BYTES = 64 << 20


@click.command()
@click.option("--from", "remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@click.option(
    "--to",
    "logdir",
    required=True,
    type=LocalPath(file_okay=False),
    help="An entry of the broker's log.dirs.",
)
@once("--topic", required=True, help="The topic's name.")
@once("--partition", "partitions", multiple=True, type=int, help="Only these; all there are by default.")
@once("--topic-id", help="In remote storage, where the topic was made anew and has segments under several ids.")
@click.option("--layout", type=click.Choice(LAYOUTS), help="Where there are segments in both layouts.")
@once("--cluster-id", help="The cluster that wrote the segments; asked for where no run recorded it.")
@once("--as-topic-id", help="What the target's cluster knows the topic by; as in remote storage by default.")
@once(
    "--producer-state",
    type=click.Choice(PRODUCER_STATES),
    help="keep in the same cluster. Into another one this has to be chosen: empty (but for the holders of open "
    "transactions), or keep where no ids collide.",
)
@once("--log-start", type=int, help="First offset wanted; as the tier tells by default.")
@once("--until", type=int, help="End the log below this offset; asked for where newer segments are not usable.")
@once("--without", multiple=True, metavar="SEGMENT_ID", help="Leave this copy of a segment out.")
@params.producer_expiration_option
@params.now_option
@click.option("--segments", is_flag=True, help="A row a segment instead of a row a partition.")
@source_cluster_options
@s3_options
@rate_option("Fetch no more bytes a second")
@click.option("--apply", is_flag=True, help="Write into the log directory; the broker must be stopped.")
@params.output_option
@click.pass_obj
def restore(
    output: Output,
    remote: str,
    logdir: Path,
    topic: str,
    partitions: tuple[int, ...],
    topic_id: str | None,
    layout: str | None,
    cluster_id: str | None,
    as_topic_id: str | None,
    producer_state: str | None,
    log_start: int | None,
    until: int | None,
    without: tuple[str, ...],
    producer_expiration: int | None,
    now: int,
    segments: bool,
    cluster: Cluster | None,
    s3: S3Settings,
    rate: int | None,
    apply: bool,
) -> int:
    """Rebuild partitions of a lost disk from their remote segments: logs, indexes, snapshots, epochs, checkpoints.

    Shows the plan; --apply carries it out. Every batch is checked, what the tier lacks is made from the log, and the
    folder gets its name only when all of it is on disk. Killed anywhere, it goes on where it was when run again. The
    restored log ends with the last tiered segment; the partition must be in no other log directory of the broker.
    """
    store = paced(open_store(remote, s3), rate)
    local = None if layout is None else layout == "local-tiered-storage"
    listed = find_partitions(store, topic, topic_id=topic_id, partitions=partitions, local=local)
    sources = {each.partition: _source_cluster(store, each.partition, cluster_id) for each in listed}
    target = open_target(logdir, next(iter(sources.values())))
    if target.meta.is_kraft and target.meta.directory_id is None:
        output.talk(
            f"{logdir}/meta.properties has no directory.id: a broker makes a new one, and then its partitions have no "
            "leader until its second start; put in the one that the directory had"
        )
    published = {} if cluster is None else read_published(cluster, [each.partition for each in listed])
    plans = []
    for each in listed:
        destination = choose_destination(
            target,
            str(each.partition),
            source_cluster=sources[each.partition],
            topic_id=each.partition.topic_id or "",
            as_topic_id=as_topic_id,
            producer_state=producer_state,
        )
        _, chain = plan_pieces(
            store,
            each,
            without=without,
            log_start_offset=log_start,
            until=until,
            known_log_start=known_log_start(target, each, is_same_cluster=destination.is_same_cluster),
            published=published.get(each.partition),
        )
        plans.append(
            plan_restore(
                store,
                target,
                each,
                chain,
                destination,
                source_cluster=sources[each.partition] or "",
                producer_expiration=producer_expiration,
                now=now,
            )
        )
    if not apply:
        _show(output, plans, segments=segments)
        again = "" if all(plan.action is RestoreAction.COMPARE for plan in plans) else " (with the same options)"
        output.talk(f"nothing was written; next: stop the broker, then tiersnap restore … --apply{again}")
        return ExitCode.OK
    with locked(target.path):
        _check_space(target, plans)
        return _carry_out(output, store, target, plans, segments=segments)


def _source_cluster(store: ObjectStore, partition: object, given: str | None) -> str | None:
    recorded = read_cluster_id(store, ObjectKeys(), partition)  # type: ignore[arg-type]
    if recorded is not None and given not in (None, recorded):
        raise UsageError(
            f"{partition}: --cluster-id {given}, but the run that tiered it recorded {recorded}",
            hint="leave --cluster-id out: what was recorded is taken",
        )
    return recorded or given


def _show(output: Output, plans: list[RestorePlan], *, segments: bool) -> None:
    _rows(output, [(plan, None) for plan in plans], segments=segments)
    for plan in plans:
        tell_plan(output, plan)
        tell_transactions(output, plan.folder.name, plan.told_open)


def _rows(
    output: Output,
    results: list[tuple[RestorePlan, RestoredLog | None]],
    *,
    segments: bool,
    errors: Sequence[TiersnapError] = (),
) -> None:
    if segments:
        columns: tuple[str, ...] = ("partition", "base_offset", "next_base_offset", "bytes", "segment_id", "action")
        rows: Iterator[dict[str, object]] = (row for plan, _ in results for row in segment_rows(plan))
    else:
        columns = ("partition", "action", "segments", "size", "log_start_offset", "log_end_offset")
        columns += ("last_stable_offset", "producers", "open_transactions")
        rows = (partition_row(plan, found) for plan, found in results)
    output.rows("restore", rows, columns=columns, errors=errors)


def _check_space(target: Target, plans: list[RestorePlan]) -> None:
    needed = sum(plan.folder.chain.size for plan in plans if plan.action is RestoreAction.RESTORE)
    free = shutil.disk_usage(target.path).free
    if needed and needed + _SPARE_BYTES > free:
        raise TransientError(
            f"{target.path}: {human_bytes(free)} are free, {human_bytes(needed)} are to be fetched",
            hint="free some space, or restore partition by partition",
        )


def _carry_out(
    output: Output, store: ObjectStore, target: Target, plans: list[RestorePlan], *, segments: bool
) -> ExitCode:
    done: list[tuple[RestorePlan, RestoredLog | None]] = []
    for plan in plans:
        tell_plan(output, plan)
        try:
            done.append((plan, _restore(output, store, target, plan)))
        except TiersnapError as error:
            for left in target.path.glob(f"{plan.folder.unfinished_prefix}*"):
                output.warn(
                    f"{left} is left, and no broker starts while it is there: run restore again, which goes on with "
                    "it, or delete it"
                )
            if not done:
                raise
            # One document: what was restored before, and what failed.
            _rows(output, done, segments=segments, errors=[error])
            output.error_text(error)
            return error.exit_code
    _rows(output, done, segments=segments)
    for plan, found in done:
        if found is not None:
            tell_done(output, plan, found)
    return ExitCode.OK


def _restore(output: Output, store: ObjectStore, target: Target, plan: RestorePlan) -> RestoredLog:
    folder, chain = plan.folder, plan.folder.chain
    for name in plan.leftovers:
        discard(target.path / name)
    if plan.action is RestoreAction.COMPARE:
        found = compare_folder(store, folder, target.path)
    else:
        output.talk(f"fetching {len(chain.pieces)} segments of {folder.name}, {human_bytes(chain.size)}")
        built, found = build_folder(store, folder, target.path)
    # A broker that checked every segment would fold the producers from them that are not to be there.
    checks_all = bool(found.doubts) and not folder.empty_state
    if checks_all and target.forget_clean_shutdown():
        output.talk("removed .kafka_cleanshutdown: the broker is to check what the tier contradicts itself about")
    # All before the folder has its name: what a broker finds of the partition is then complete.
    target.set_checkpoints(
        (folder.topic, folder.partition),
        log_start=chain.log_start_offset,
        log_end=chain.end_offset,
        # From here on an unclean start checks segments: the empty active one, or where there was any doubt all.
        recovery_point=chain.start_offset if checks_all else chain.end_offset,
    )
    if plan.action is not RestoreAction.COMPARE:
        target.rename(built, folder.name)
    forget_marker(target.path / folder.name)
    return found
