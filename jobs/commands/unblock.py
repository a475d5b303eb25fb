"""`tiersnap unblock`: free partitions whose copy task is stuck, while the broker runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again, host_place
from tiersnap.jobs.cli.option_types import clock
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.publish_options import ProofRequest, proof_options
from tiersnap.jobs.cli.sentences import (
    PlaceSentence,
    place_fields,
    tell_failures,
    tell_mended,
    tell_place,
    tell_unknown_encryption,
)
from tiersnap.jobs.commands.tier import HostRequest, host_options
from tiersnap.remote_storage.publish.location_proof import EvidenceKind
from tiersnap.remote_storage.unblock.unblock_outcome import End
from tiersnap.remote_storage.upload.tier_plan import TierPlan
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.remote_storage.unblock.freeing import Freeing
    from tiersnap.remote_storage.unblock.unblock import Unblocked


@dataclass(frozen=True, slots=True)
class FreedPartition:
    """A stuck partition of `unblock`."""

    COLUMNS: ClassVar = (*("topic", "partition", "remote_ends_at", "attempts", "tier", "publish", "outcome", "reason"),)
    topic: str
    partition: int
    remote_ends_at: int
    attempts: int
    tier: int
    publish: int
    outcome: End
    reason: str
    hint: str

    @classmethod
    def of(cls, freeing: Freeing, hint: str) -> FreedPartition:
        """Return the row of a partition; `hint` is the next command, or ""."""
        stuck, (topic, partition) = freeing.stuck, freeing.name
        counts = stuck.next_offset, stuck.attempts, freeing.tier, freeing.publish
        return cls(topic, partition, *counts, freeing.end, freeing.reason, hint)


@dataclass(frozen=True, slots=True)
class UnblockSummary:
    """The outcome of `unblock`. If no partition was stuck, there is no summary."""

    NOT_TOLD: ClassVar = ("place", "place_evidence", "plan")
    run_id: str | UnsetType = UNSET
    segments_uploaded: int | UnsetType = UNSET
    snapshots_mended: int | UnsetType = UNSET
    place: PlaceSentence | UnsetType = UNSET
    place_evidence: EvidenceKind | UnsetType = UNSET
    plan: Annotated[TierPlan | UnsetType, Meta(description="counts of the plan; absent with --apply")] = UNSET


@command(FreedPartition, summary=UnblockSummary)
@host_options()
@opt.broker_option
@opt.hung_after_option
@proof_options
def unblock(
    output: Output,
    request: HostRequest,
    proof: ProofRequest,
    broker_id: int | None,
    hung_after: int | None,
) -> int:
    r"""Free partitions whose tiering is stuck or hung, without a broker restart.

    tiersnap unblock
    tiersnap unblock --apply
    tiersnap unblock /var/lib/kafka/data --bootstrap-server broker-1:9092 \
      --remote s3://bucket/tiers --apply

    On the host of a running broker the command finds LOGDIR, the remote location and the cluster. LOGDIR must be all
    entries of the broker's log.dirs.

    Stuck copies: a copy task is stuck if it starts the same segment again and again, because a producer snapshot is
    missing. The command tiers such segments with computed snapshots, pauses copying with remote.log.copy.disable,
    publishes the segments, and resumes copying. The copy task then continues after these segments. No file in LOGDIR is
    changed. The objects of a broker's failed attempt are published only if all of them equal the log in LOGDIR.
    Otherwise the segment is uploaded again.

    Hung copies: a copy is hung if it runs much longer than other copies (--hung-after). The command then disables
    copying and enables it again, so that the broker starts the copy again.

    Proof: the command writes only with a proof that brokers read --remote. Either the settings of the broker on this
    host name --remote, or --prove lets brokers read a record back from it. Without a proof, or with a contradiction,
    nothing is written, and the exit code is 4.

    Configs: copying is disabled for about three seconds. During this time retention and local retention of the topic
    are unlimited. Otherwise the broker would apply total retention to the local log, and delete remote segments. The
    topic's configs are first saved in remote storage. If the command is killed, the next call restores the
    configs and finishes the work. It does not restore configs that an operator has changed meanwhile.

    If a broker refuses to restore the configs, the command enables copying, prints a kafka-configs line for the other
    configs, and exits with code 4. If another run has paused the topic, the command waits for the end of that run. If
    an operator had disabled copying, it stays disabled.

    If the cluster refuses to disable copying (ZooKeeper mode, Kafka before 3.9), the segments are tiered and published,
    but the copy task continues only after a restart of the leader.
    """
    from tiersnap.remote_storage.cluster.hung_copies import HungLimit
    from tiersnap.remote_storage.unblock.unblock import Unblock
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.log_dir import open_log_dir
    from tiersnap.snapshot.log.places import places_of

    situation = request.situation
    places = places_of(situation.log_dirs.require("log directories"))
    prover = proof.prover(situation, request.store, output.talk, apply=request.apply)
    location = prover.location(situation.layout)
    log_dirs = {place: open_log_dir(place) for place in places}
    hung = None if hung_after is None else HungLimit(clock(), hung_after)
    with Progress(output, "unblocking") as progress:
        host, talk, watch = request.host_in(location), output.talk, progress.watch_done
        job = Unblock(prover, host, log_dirs, request.topic, broker_id, talk, hung, watch)
        done = job.run()
    errors = (*done.tiered.errors, *done.refusals, *done.doubts)
    next_place = host_place(tuple(log_dirs), situation)
    rows = []
    for each in done.freeings:
        step = next_place.clears(each.waits_for) if each.waits_for else each.hint
        rows.append(FreedPartition.of(each, step))
    if rows:
        output.rows(FreedPartition, rows, summary=_summary(done, request), findings=done.tiered.findings, errors=errors)
    else:
        output.rows(FreedPartition, rows, errors=errors)
    tell_place(output, done.proof)
    tell_failures(output, errors)
    cures: dict[str, None] = {}
    for lost in done.lost_epochs:
        output.warn(lost.says())
        cures |= dict.fromkeys(map(next_place.text, lost.cure()))
    output.talk(*cures)
    if rows:
        _tell_freed(output, done, rows, apply=request.apply)
    elif not done.lost_epochs:
        _tell_none_stuck(output, done.candidates)
    return exit_code_of(done.problems())


def _tell_none_stuck(output: Output, candidates: int) -> None:
    if candidates:
        output.talk(f"no copy task is stuck in {count_of(candidates, 'tiered partition')}")
    else:
        output.talk("no copy task is stuck: LOGDIR has no partition with a leader and with copying enabled")


def _summary(done: Unblocked, request: HostRequest) -> UnblockSummary:
    tiered = done.tiered
    counts = len(tiered.copied), tiered.counts.snapshots_mended
    summary = UnblockSummary(request.tierer.run_id, *counts, *place_fields(done.proof))
    if request.apply:
        return summary
    return replace(summary, plan=tiered.plan)


def _tell_freed(output: Output, done: Unblocked, rows: Iterable[FreedPartition], *, apply: bool) -> None:
    """Print the next steps. If `apply` is False, also print the number of segments that --apply would upload."""
    from tiersnap.snapshot.replay.remote_listing import Encryption

    tell_mended(output, done.tiered.counts.snapshots_mended)
    output.warn(*sorted({row.hint for row in rows if row.hint}))
    if apply:
        return
    tell_unknown_encryption(output, done.tiered.encryption[Encryption.UNKNOWN])
    if done.tiered.plan:
        output.talk(done.tiered.plan.sentence)
    output.talk(f"nothing was changed; next: {again('--apply')}")
