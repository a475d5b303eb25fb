"""`tiersnap mend`: restore missing objects of published segments, and replace wrong segments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again
from tiersnap.jobs.cli.option_types import once
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.publish_options import ProofRequest, proof_options
from tiersnap.jobs.cli.sentences import (
    MissingRemoteSegment,
    PlaceSentence,
    place_fields,
    tell_failures,
    tell_old_versions,
    tell_place,
    tell_unknown_encryption,
)
from tiersnap.jobs.cli.situation_options import situation_options
from tiersnap.jobs.situation.situation import Situation
from tiersnap.remote_storage.mend.actions import MendAction, MendOutcome
from tiersnap.remote_storage.publish.location_proof import EvidenceKind
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.gate.remote_check import CheckDepth
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
    from tiersnap.remote_storage.mend.make_again import RemoteLogs
    from tiersnap.remote_storage.mend.mend import Mended
    from tiersnap.remote_storage.mend.mend_rules import MendRules
    from tiersnap.remote_storage.mend.segments_to_mend import Mending
    from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition


@dataclass(frozen=True, slots=True)
class MendedSegment:
    """A published segment that `mend` handled: it lacks objects, is wrong, or is to be deleted."""

    COLUMNS: ClassVar = ("topic", "partition", "base_offset", "next_base_offset", "segment_id", "action", "outcome")
    segment: MissingRemoteSegment
    action: MendAction
    outcome: MendOutcome
    reason: Annotated[
        str, Meta(description='error message, or else the problem of the segment; "" if there is neither')
    ]
    replaced_by: Annotated[str, Meta(description='id of the replacement segment; "" if there is none')]

    @classmethod
    def of(cls, mending: Mending) -> MendedSegment:
        """Return the row for a finished or planned Mending."""
        reason = mending.problem
        if mending.error is not None:
            reason = mending.error.message
        segment = MissingRemoteSegment.of(mending.missing)
        return cls(segment, mending.action, mending.outcome, reason, mending.replaced_by)


@dataclass(frozen=True, slots=True)
class MendSummary:
    """Totals over all segments. If no object is missing, `place` is absent."""

    NOT_TOLD: ClassVar = ("place", "place_evidence")
    known: Annotated[int, Meta(description="published segments that brokers read")]
    missing: int
    wrong: int
    mended: int
    encryption_unknown: Annotated[
        int, Meta(description="partitions without a manifest that shows whether the plugin encrypts")
    ]
    place: PlaceSentence | UnsetType = UNSET
    place_evidence: EvidenceKind | UnsetType = UNSET


@command(MendedSegment, summary=MendSummary)
@situation_options()
@proof_options
@once(
    "--from",
    "wrong",
    metavar="URI",
    help="Other location with objects of the segments: a backup, or the target of a mistaken upload. It is read if "
    "LOGDIR lacks a segment.",
)
@once("--from-layout", "lies_as", type=click.Choice(opt.LAYOUTS), help="Layout of --from.  [default: as in --remote]")
@click.option(
    "--depth",
    type=click.Choice([each.value for each in CheckDepth]),
    help="Verify published segments at this depth as `tiersnap verify` does, and replace wrong ones.  [default: "
    "snapshots; no verification with --from]",
)
@once("--delete-bad", is_flag=True, help="Delete wrong segments that brokers no longer read, and their objects.")
@opt.topic_option
@opt.expiration_option
@opt.broker_expiry_options
@opt.allow_plaintext_option
@opt.apply_option("Restore and replace segments; without --apply print the plan.")
def mend(
    output: Output,
    situation: Situation,
    proof: ProofRequest,
    wrong: str | None,
    lies_as: str | None,
    depth: str | None,
    delete_bad: bool,
    topic: re.Pattern[str] | None,
    expiration: int | None,
    broker_expiry: opt.BrokerExpiry,
    allow_plaintext: bool,
    apply: bool,
) -> int:
    r"""Mend remote segments that brokers read: missing objects, and wrong snapshots, indexes or logs.

    tiersnap mend
    tiersnap mend /var/lib/kafka/data --bootstrap-server broker-1:9092 \
      --remote s3://bucket/tiers --apply
    tiersnap mend --bootstrap-server broker-1:9092 --remote s3://bucket/tiers \
      --from s3://bucket/wrong-prefix

    On the host of a running broker the command finds LOGDIR, the remote location and the cluster. LOGDIR may be log
    directories of any replica.

    Missing objects: a missing object is built from the first of these sources that has the segment.

    1. The log in LOGDIR, as `tiersnap tier` builds it.

    2. --from: a backup, or the wrong prefix or layout to which an earlier upload went. The segment is first read
    completely, and compared with LOGDIR and remote storage. An encrypted segment is refused.

    3. The segment's other objects, or the log of another copy of the segment, even of an incomplete copy. The producer
    state at the first offset comes from remote storage.

    If the batches of a log differ from remote storage, for example in a diverged clone, the log is refused. The new
    object gets the key that brokers request, under the same segment id. No record changes, no object is overwritten,
    and --from is not changed. Brokers read the object without a restart.

    Wrong segments: a segment is replaced if --depth finds it wrong, or if a missing object cannot be built to fit the
    existing objects. The replacement has a new segment id and comes from the same sources. The command uploads it as
    `tier` does, and publishes it as `publish` does, but copying stays enabled. During the replacement, brokers can
    always read every offset that they could read before it.

    The wrong segment remains in the records, so it counts for retention.bytes, and verify still reports it.
    --delete-bad deletes the segment, its record and its objects. If a segment was copied twice, it also deletes the
    copy that brokers do not read. It first verifies the whole partition at --depth full. It deletes nothing if the
    segments that brokers read instead are wrong.

    If a segment cannot be repaired, the command prints its name and the reason (exit code 4). As in `tiersnap publish`,
    the command needs a proof that brokers read --remote. It never writes plain text to a partition with encrypted
    segments.
    """
    from tiersnap.remote_storage.cluster.missing_objects import read_by_brokers
    from tiersnap.remote_storage.cluster.topic_checks import check_selected
    from tiersnap.remote_storage.layouts.remote_location import open_location
    from tiersnap.remote_storage.mend.mend import MendRequest, MendTier
    from tiersnap.remote_storage.mend.mend_rules import MendRules
    from tiersnap.remote_storage.stores.open_store import open_existing_store
    from tiersnap.remote_storage.upload.tier_job import Tierer
    from tiersnap.snapshot.log.selection import matches_topic
    from tiersnap.snapshot.report.run_info import new_run_id

    rules = MendRules(opt.expiry(expiration, None, broker_expiry), broker_expiry.expiration)
    view, log_dirs = situation.remote.require("remote location"), situation.log_dirs.value or ()
    store = view.open_store(writes=apply)
    situation.refuse_contradiction(store)
    prover = proof.prover(situation, store, output.talk, apply=apply)
    cluster, target = prover.cluster, prover.location(situation.layout)
    source = None
    if wrong is not None:
        source = open_location(open_existing_store(wrong, view.stores, writes=False), lies_as or target.layout.name)
        if (source.store.uri, source.layout) == (target.store.uri, target.layout):
            raise UsageError(
                "--from and --remote are the same location",
                hint="give as --from the other location that has the objects, for example a backup",
            )
    checked = None
    if depth:
        checked = CheckDepth(depth)
    elif source is None:
        checked = CheckDepth.SNAPSHOTS
    request = MendRequest(source, checked, log_dirs, delete_bad, allow_plaintext, apply)
    with prover.metadata_topic.read_all() as reader, Progress(output, "mending") as progress:
        ask = partial(read_by_brokers, cluster, reader, lambda name: matches_topic(name, topic))
        known, prove = ask(), partial(prover.prove, target)
        if topic is not None and not known.segments:
            check_selected(cluster, topic)
        logs = _logs(log_dirs, topic, rules, target, known.log_starts)
        tierer = Tierer(new_run_id(), broker_expiry.now)
        mending = MendTier(
            cluster, prover.metadata_topic, reader, logs, tierer, known, ask, prove, request, progress.watch_done
        )
        mended = mending.run()
    code = _print_summary(output, mended, apply=apply)
    if any(each.action is MendAction.DELETE for each in mended.done):
        tell_old_versions(output, target.store)
    return code


def _logs(
    log_dirs: tuple[str, ...],
    topic: re.Pattern[str] | None,
    rules: MendRules,
    target: RemoteLocation,
    starts: Mapping[TopicIdPartition, int],
) -> RemoteLogs:
    from tiersnap.remote_storage.mend.make_again import RemoteLogs
    from tiersnap.remote_storage.verify.local_log import logs_of_replicas
    from tiersnap.snapshot.log.selection import Selection

    local = logs_of_replicas(target, log_dirs, Selection(topic), rules.broker_expiry)
    return RemoteLogs(target, rules, local, starts)


def _print_summary(output: Output, mended: Mended, *, apply: bool) -> int:
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.replay.remote_listing import Encryption

    done, missing, proof = mended.done, mended.missing, mended.proof
    errors = [each.error for each in done if each.error is not None]
    errors += mended.failures
    count = sum(each.outcome is MendOutcome.MENDED for each in done)
    told = place_fields(proof)
    unknown = {each.metadata.id.topic_id_partition for each in done if each.encryption is Encryption.UNKNOWN}
    summary = MendSummary(missing.known, len(missing.segments), mended.wrong, count, len(unknown), *told)
    output.rows(MendedSegment, map(MendedSegment.of, done), summary=summary, errors=errors)
    tell_place(output, proof)
    tell_failures(output, errors)
    if not apply:
        tell_unknown_encryption(output, len(unknown))
    output.talk(*_says(mended, apply=apply))
    if mended.unread:
        wrong = count_of(mended.unread, "wrong segment")
        output.talk(f"to delete {wrong} that brokers no longer read: {again('--delete-bad')}")
    return exit_code_of(errors)


def _says(mended: Mended, *, apply: bool) -> Iterator[str]:
    """Yield messages about the missing or mended segments, and the next step."""
    done, missing = mended.done, mended.missing
    if not apply or not done:
        yield missing.sentence
        planned = [each for each in done if each.outcome is MendOutcome.PLANNED]
        if planned:
            size = sum(each.metadata.segment_size for each in planned)
            yield f"plan: {count_of(len(planned), 'segment')} to mend, {human_bytes(size)}"
            yield f"nothing was changed; next: {again('--apply')}"
        return
    ended = Counter(each.outcome for each in done)
    of = count_of(len(done), "segment was", "segments were")
    yield f"{ended[MendOutcome.MENDED]} of {of} mended at {missing.uri}"
    if ended[MendOutcome.DELETED]:
        yield f"brokers deleted {count_of(ended[MendOutcome.DELETED], 'segment')} during the command"
