"""`tiersnap publish`: announce uploaded segments to the brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again, situation_place
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.publish_options import ProofRequest, next_steps_of, proof_options
from tiersnap.jobs.cli.sentences import PlaceSentence, place_fields, tell_place
from tiersnap.jobs.cli.situation_options import situation_options
from tiersnap.jobs.situation.situation import Situation
from tiersnap.remote_storage.publish.location_proof import EvidenceKind
from tiersnap.remote_storage.publish.publish_counts import PublishCounts
from tiersnap.snapshot.errors import SourceNotFoundError

if TYPE_CHECKING:
    from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
    from tiersnap.remote_storage.publish.publish import Published
    from tiersnap.remote_storage.publish.segments_to_publish import PublishPlan
    from tiersnap.snapshot.gate.printed_steps import Place


@dataclass(frozen=True, slots=True)
class PublishedPartition:
    """A partition of `publish`, with a count of segments for each action."""

    COLUMNS: ClassVar = ("topic", "partition", "metadata_partition", "publish", "finish", "known", "others", "refused")
    topic: str
    topic_id: str | None
    partition: int
    metadata_partition: int
    publish: int
    finish: int
    known: int
    others: str
    refused: Annotated[str, Meta(description='type of the error that refused the partition, or ""')]
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class PublishSummary:
    """Totals over all partitions. If no segment is to be published, `place` is absent."""

    NOT_TOLD: ClassVar = ("place", "place_evidence", "plan")
    segments: int
    records_published: int
    place: PlaceSentence | UnsetType = UNSET
    place_evidence: EvidenceKind | UnsetType = UNSET
    plan: Annotated[PublishCounts | UnsetType, Meta(description="counts of the plan; absent with --apply")] = UNSET


@command(PublishedPartition, summary=PublishSummary)
@situation_options()
@opt.broker_option
@proof_options
@opt.topic_option
@opt.broker_expiry_options
@opt.apply_option("Publish; without --apply print the plan.")
def publish(
    output: Output,
    situation: Situation,
    broker_id: int | None,
    proof: ProofRequest,
    topic: opt.TopicPattern,
    broker_expiry: opt.BrokerExpiry,
    apply: bool,
) -> int:
    r"""Announce uploaded segments to a cluster's brokers.

    tiersnap publish
    tiersnap publish --bootstrap-server broker-1:9092 --remote s3://bucket/tiers
    tiersnap publish --bootstrap-server broker-1:9092 --remote s3://bucket/tiers \
      --topic orders --apply

    On the host of a running broker the command finds LOGDIR, the remote location and the cluster.

    The command writes COPY_SEGMENT_STARTED and COPY_SEGMENT_FINISHED to __remote_log_metadata for each complete segment
    in --remote without such records. No segment is published twice. If the command is killed, the next call finishes
    the work.

    Verification: each segment is read completely before it is published. If LOGDIR has its batches, the segment is
    compared with them; give log directories of the leader. LOGDIR also provides the leader epochs if leaders cannot be
    asked (SASL). A partition with a damaged segment, or with a segment of another log, is refused (exit code 5).

    A partition is refused if the cluster has another topic of the same name, if the topic is not tiered, or if
    offsets before a segment are not in remote storage. It is also refused if the leader's log has other leader epochs
    at a segment's offsets. If a segment ends above the end of the leader's log, the partition is refused with exit
    code 5.

    If all published copies of a segment have lost objects, the command publishes an unpublished copy that is complete.
    Offsets that remain unreadable are listed (exit code 5). A segment is not published if brokers would then no longer
    find other offsets that they can read now.

    Copying: consumers read published segments immediately. A running copy task does not notice them, and would upload
    them again. Therefore the command pauses copying with remote.log.copy.disable for about three seconds, one topic
    after another, and sets unlimited retention meanwhile. It first saves the topic's configs in --remote. If the
    command is killed, the next `tiersnap publish`, `tier`, `run` or `unblock` with --apply restores them. At the end
    the command waits until the copy tasks continue. If an operator had disabled copying, it stays disabled. If the
    cluster refuses these configs (ZooKeeper mode, Kafka before 3.9, no permission), no segment of the topic is
    published.

    Proof: the command publishes only with a proof that brokers read --remote. Either the settings of the broker on this
    host name --remote, or --prove lets brokers read a record back from it. Segments in --remote prove nothing, because
    a replica of the bucket contains them as well. Without a proof, or with a contradiction, nothing is published, and
    the exit code is 4.
    """
    from tiersnap.remote_storage.publish.publish import Publish
    from tiersnap.remote_storage.remote_log.finished import finished_segments
    from tiersnap.remote_storage.verify.local_log import logs_of_replicas
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.gate.next_steps import TIER_HERE
    from tiersnap.snapshot.log.selection import Selection, matches_topic

    view, log_dirs = situation.remote.require("remote location"), situation.log_dirs.value or ()
    place = situation_place(log_dirs, situation)
    store = view.open_store(writes=apply)
    situation.refuse_contradiction(store)
    prover = proof.prover(situation, store, output.talk, apply=apply)
    metadata_topic, location = prover.metadata_topic, prover.location(situation.layout)
    finished = finished_segments(location, lambda name: matches_topic(name, topic))
    if not finished:
        prover.verdict(location).refuse_contradiction()
        layout = location.layout.name
        raise SourceNotFoundError(
            f"{view.remote}: no completely uploaded segment of the layout {layout} in the topics that --topic selects",
            hint=f"to upload segments: {place.text(TIER_HERE)}; to read another layout, add --layout",
        )
    local = logs_of_replicas(location, log_dirs, Selection(topic), broker_expiry)
    prove = partial(prover.prove, location)
    chosen = prove, log_dirs, broker_id, local, broker_expiry, output.talk
    job = Publish(prover.cluster, metadata_topic, location, *chosen)
    done = job.run(finished, apply=apply)
    summary = PublishSummary(len(finished), done.records, *place_fields(done.proof))
    if not apply:
        summary = replace(summary, plan=done.plan)
    rows = [_row(plan, metadata_topic) for plan in done.plans]
    output.rows(PublishedPartition, rows, summary=summary, errors=done.errors)
    tell_place(output, done.proof)
    output.warn(*refusals_of(done))
    output.talk(*_says(done, place, apply=apply))
    return exit_code_of(done.problems())


def _row(plan: PublishPlan, metadata_topic: MetadataTopic) -> PublishedPartition:
    from tiersnap.remote_storage.publish.segments_to_publish import PublishAction

    counts = {action: plan.count(action) for action in PublishAction}
    publish = counts.pop(PublishAction.PUBLISH)
    finish = counts.pop(PublishAction.FINISH)
    known = counts.pop(PublishAction.KNOWN)
    others = [f"{count} {action}" for action, count in counts.items() if count]
    refused = reason = hint = ""
    if plan.refusal is not None:
        refused = type(plan.refusal).__name__
    if errors := plan.errors:
        reason, hint = errors[0].message, errors[0].hint
    return PublishedPartition(
        topic=plan.partition.topic,
        topic_id=plan.partition.topic_id,
        partition=plan.partition.partition,
        metadata_partition=metadata_topic.partition_of(plan.partition),
        publish=publish,
        finish=finish,
        known=known,
        others=", ".join(others),
        refused=refused,
        reason=reason,
        hint=hint,
    )


def refusals_of(done: Published) -> Iterator[str]:
    """Yield the message and the hint of each error: first for topics, then for partitions and segments."""
    from tiersnap.remote_storage.errors import LostCopyError

    for doubt in done.doubts:
        yield from (doubt.message, f"  {doubt.hint}")
    for plan in done.plans:
        for error in plan.errors:
            if error is plan.refusal:
                kind = "refused"
            elif isinstance(error, LostCopyError):
                kind = "lost"
            else:
                kind = "held back"
            yield f"{kind}: {error.message}"
            yield f"  {error.hint}"


def _says(done: Published, place: Place, *, apply: bool) -> Iterator[str]:
    if not any(plan.is_open for plan in done.plans):
        yield "nothing else is left to publish" if done.errors else "nothing to publish"
    elif not apply:
        yield done.plan.sentence
        yield f"nothing was published; next: {again('--apply')}"
    yield from next_steps_of(done, place)
