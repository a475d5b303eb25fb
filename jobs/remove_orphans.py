"""`tiersnap maintain remove-orphans`: what tiersnap left in remote storage and no cluster knows of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.cluster import client_options
from tiersnap.jobs.options.remote import s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.remote_storage.claims import STALE_AFTER_MS
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.orphans.find import find_orphans
from tiersnap.remote_storage.orphans.judge import Fate, Orphan, OrphanKind
from tiersnap.remote_storage.orphans.remove import remove
from tiersnap.remote_storage.stores.object_store import DeleteFailure
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode, GateError, TiersnapError, UsageError, failure
from tiersnap.snapshot.log.selection import matches_topic
from tiersnap.snapshot.units import format_duration, human_bytes

COLUMNS = ("topic", "partition", "kind", "action", "objects", "size", "name", "reason")


@click.command("remove-orphans")
@client_options
@click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
@s3_options
@params.topic_option
@click.option(
    "--older-than",
    type=params.Duration(),
    default="1d",
    show_default=True,
    help="Leave alone what is younger, by the clock of remote storage.",
)
@metrics_options
@click.option("--apply", is_flag=True, help="Remove; without it the plan is shown.")
@params.output_option
@click.pass_obj
def remove_orphans(
    output: Output,
    cluster: Cluster,
    remote: str,
    s3: S3Settings,
    topic: re.Pattern[str] | None,
    older_than: int | None,
    sinks: Sinks,
    apply: bool,
) -> int:
    """Remove copies, snapshots and unfinished uploads of tiersnap that the cluster knows nothing of.

    Only what tiersnap announced is removed: a claim names the attempt, or a manifest the snapshot. And only of
    partitions whose cluster.json names this cluster, which has no record of it in __remote_log_metadata, or one that
    it was deleted. What is published, what may still be published, and what is not ours is left alone.
    """
    if older_than is None or older_than < STALE_AFTER_MS:
        raise UsageError(
            f"--older-than {format_duration(older_than)}: an attempt that is at work may be older than that",
            hint=f"give at least {format_duration(STALE_AFTER_MS)}",
        )
    store = open_store(remote, s3)
    found = list(find_orphans(store, cluster, lambda name: matches_topic(name, topic), older_than=older_than))
    done = list(remove(store, found)) if apply else []
    wanted = [each for each in found if each.action is Fate.REMOVE]
    summary = {
        "orphans": dict(Counter(str(each.action) for each in found)),
        "removed": sum(not failures for _, failures in done),
        "bytes": sum(each.size for each in wanted),
    }
    rows, errors = [_row(each) for each in found], list(_errors(found, done))
    output.rows("maintain remove-orphans", rows, columns=COLUMNS, summary=summary, errors=errors)
    _tell(output, found, done, applied=apply)
    gone = {id(orphan) for orphan, failures in done if not failures}
    left = [(str(each.kind), each.size) for each in found if id(each) not in gone]
    if sinks.is_any:
        from tiersnap.snapshot.metrics.of_run import of_orphans

        sinks.send(lambda: of_orphans([str(kind) for kind in OrphanKind], left))
    return _exit_code(found, done)


def _row(orphan: Orphan) -> dict[str, object]:
    at = orphan.partition
    return {
        "topic": at.topic if at else "",
        "topic_id": at.topic_id if at else None,
        "partition": at.partition if at else None,
        "kind": str(orphan.kind),
        "action": str(orphan.action),
        "objects": len(orphan.keys),
        "bytes": orphan.size,
        "size": human_bytes(orphan.size),
        "name": orphan.segment_id or orphan.keys[0].rpartition("/")[2],
        "reason": orphan.reason,
        "keys": list(orphan.keys),
    }


def _errors(
    found: Sequence[Orphan], done: Sequence[tuple[Orphan, tuple[DeleteFailure, ...]]]
) -> Iterator[TiersnapError]:
    """What was refused, and what could not be removed."""
    for orphan in found:
        if orphan.action is Fate.REFUSE:
            yield GateError(f"{orphan.partition}: {orphan.reason}")
    for _, failures in done:
        for each in failures:
            yield failure(f"{each.key}: {each.reason}", is_transient=False)


def _tell(
    output: Output,
    found: Sequence[Orphan],
    done: Sequence[tuple[Orphan, tuple[DeleteFailure, ...]]],
    *,
    applied: bool,
) -> None:
    for orphan in found:
        if orphan.action is Fate.REFUSE:
            output.warn(f"refused: {orphan.partition}: {orphan.reason}")
    for _, failures in done:
        for each in failures:
            output.warn(f"still there: {each.key}: {each.reason}")
    if not any(each.action is Fate.REMOVE for each in found):
        output.talk("nothing to remove")
    elif not applied:
        output.talk("nothing was removed: give --apply")


def _exit_code(found: Sequence[Orphan], done: Sequence[tuple[Orphan, tuple[DeleteFailure, ...]]]) -> ExitCode:
    """PARTIAL for what could not be removed or was refused beside others, GATE_REFUSED where all of it was refused."""
    if any(failures for _, failures in done):
        return ExitCode.PARTIAL
    actions = {each.action for each in found}
    if Fate.REFUSE not in actions:
        return ExitCode.OK
    return ExitCode.PARTIAL if Fate.REMOVE in actions else ExitCode.GATE_REFUSED
