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
    """A partition of `publish`, with the counts of its segments by action."""

    COLUMNS: ClassVar = ("topic", "partition", "metadata_partition", "publish", "finish", "known", "others", "refused")
    topic: str
    topic_id: str | None
    partition: int
    metadata_partition: int
    publish: int
    finish: int
    known: int
    others: str
    refused: Annotated[str, Meta(description='type of the error that refused it, or ""')]
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class PublishSummary:
    """Sums over all partitions; `place` is absent if there is nothing to publish."""

    NOT_TOLD: ClassVar = ("place", "place_evidence", "plan")
    segments: int
    records_published: int
    place: PlaceSentence | UnsetType = UNSET
    place_evidence: EvidenceKind | UnsetType = UNSET
    plan: Annotated[PublishCounts | UnsetType, Meta(description="of a plan; absent with --apply")] = UNSET


@command(PublishedPartition, summary=PublishSummary)
@situation_options()
@opt.broker_option
@proof_options
@opt.topic_option
@opt.broker_expiry_options
@opt.apply_option("Publish; without it the plan is shown.")
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

    Beside a running broker it finds LOGDIR, the remote location and the cluster by itself.

    Writes COPY_SEGMENT_STARTED and COPY_SEGMENT_FINISHED to __remote_log_metadata for each complete segment in --remote
    that has no such records. It publishes nothing twice; if it is killed, the next run finishes.

    First it reads each segment completely, and compares it with the log in LOGDIR, log directories of the leader, if
    its batches are there. LOGDIR also has the leader epochs if leaders cannot be asked (SASL). A partition with a
    damaged segment, or with one of another log, is refused (exit code 5).

    A partition is refused as a whole if the cluster has another topic by its name, if it is not tiered, if offsets
    before a segment are not in remote storage, or if its leader epochs are not in the lineage. If copies that brokers
    know have lost objects, a complete copy takes their place, unless none of theirs is complete. Offsets that stay
    unreadable are named (exit code 5). A segment that would hide readable offsets is held back.

    Consumers read published segments immediately. A running copy task does not see them, and would copy them again. So
    copying of a topic with something to publish is paused for about three seconds (remote.log.copy.disable), one topic
    after another; meanwhile its retention is endless. What the topic had set is saved in --remote first: if the command
    is killed, the next tiersnap publish, tier, run or unblock with --apply puts it back. Then the copy tasks are
    watched until they go on. If someone else has disabled copying, it stays disabled. If the cluster refuses those
    settings (ZooKeeper mode, Kafka before 3.9, no permission), nothing of the topic is published.

    Before the first record one of these proves that brokers read --remote: a broker that runs on this host was started
    with it; or brokers read a record back from there, with --prove. Segments that are there prove nothing: a replica
    of the bucket has them, too. Without a proof, and if there is a contradiction, nothing is published and the exit
    code is 4.
    """
    from tiersnap.remote_storage.publish.publish import Publish
    from tiersnap.remote_storage.remote_log.finished import finished_segments
    from tiersnap.remote_storage.verify.local_log import logs_of_replicas
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.gate.steps_by_problem import TIER_HERE
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
            f"{view.remote}: no finished remote segment of the layout {layout}, or none that --topic selects",
            hint=f"{place.text(TIER_HERE)} makes them; --layout names the layout of those that exist",
        )
    local = logs_of_replicas(location, log_dirs, Selection(topic), broker_expiry)
    prove = partial(prover.prove, location)
    chosen = prove, log_dirs, broker_id, local, broker_expiry, output.talk
    job = Publish(prover.cluster, metadata_topic, location, *chosen)
    done = job.run(finished, apply=apply)
    told = place_fields(done.proof)
    output.rows(
        PublishedPartition,
        [_row(plan, metadata_topic) for plan in done.plans],
        summary=replace(PublishSummary(len(finished), done.records, *told), plan=UNSET if apply else done.plan),
        errors=done.errors,
    )
    tell_place(output, done.proof)
    output.warn(*refusals_of(done))
    output.talk(*_says(done, place, apply=apply))
    return exit_code_of(done.problems())


def _row(plan: PublishPlan, metadata_topic: MetadataTopic) -> PublishedPartition:
    from tiersnap.remote_storage.publish.segments_to_publish import PublishAction

    publish, finish, known = columns = (PublishAction.PUBLISH, PublishAction.FINISH, PublishAction.KNOWN)
    others = {action: plan.count(action) for action in PublishAction if action not in columns}
    first = next(iter(plan.errors), None)
    reason, hint = ("", "") if first is None else (first.message, first.hint)
    return PublishedPartition(
        topic=plan.partition.topic,
        topic_id=plan.partition.topic_id,
        partition=plan.partition.partition,
        metadata_partition=metadata_topic.partition_of(plan.partition),
        publish=plan.count(publish),
        finish=plan.count(finish),
        known=plan.count(known),
        others=", ".join(f"{count} {action}" for action, count in others.items() if count),
        refused="" if plan.refusal is None else type(plan.refusal).__name__,
        reason=reason,
        hint=hint,
    )


def refusals_of(done: Published) -> Iterator[str]:
    """Yield why partitions are refused, segments lost or held back, and topics in doubt, each with its hint."""
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
        yield "nothing else to publish" if done.errors else "nothing to publish"
    elif not apply:
        yield done.plan.sentence
        yield f"nothing was published; next: {again('--apply')}"
    yield from next_steps_of(done, place)
