"""`tiersnap unblock`: partitions whose copier is stuck, freed while their broker runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
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
        """Return a partition that is freed, and the command that comes next."""
        stuck, (topic, partition) = freeing.stuck, freeing.name
        counts = stuck.next_offset, stuck.attempts, freeing.tier, freeing.publish
        return cls(topic, partition, *counts, freeing.end, freeing.reason, hint)


@dataclass(frozen=True, slots=True)
class UnblockSummary:
    """Absent where nothing was stuck."""

    NOT_TOLD: ClassVar = ("place", "place_evidence", "plan")
    run_id: str | UnsetType = UNSET
    segments_uploaded: int | UnsetType = UNSET
    snapshots_mended: int | UnsetType = UNSET
    place: PlaceSentence | UnsetType = UNSET
    place_evidence: EvidenceKind | UnsetType = UNSET
    plan: Annotated[TierPlan | UnsetType, Meta(description="what --apply would upload; absent with --apply")] = UNSET


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
    r"""Free partitions whose tiering is stuck or hangs, without a restart.

    tiersnap unblock
    tiersnap unblock --apply
    tiersnap unblock /var/lib/kafka/data --bootstrap-server broker-1:9092 \
      --remote s3://bucket/tiers --apply

    Beside a running broker it finds LOGDIR, the remote location and the cluster by itself. LOGDIR are all entries of
    that broker's log.dirs.

    It looks in LOGDIR for partitions whose copier begins the same segment again and again because a producer snapshot
    is missing. It tiers their segments with computed snapshots, pauses copying by remote.log.copy.disable, publishes
    the segments, and resumes copying, which then continues after them. No file in the log directory is touched. The
    objects of a broker's failed attempt are published only if they all equal the log in LOGDIR; otherwise the segment
    is uploaded again.

    A copy hangs if its broker began it and it does not end (--hung-after). Then the command only disables and enables
    copying, and the broker begins the copy anew.

    Before anything is tiered one of these proves that brokers read --remote: a broker that runs on this host was
    started with it; or brokers read a record back from there, with --prove. Without a proof, and if there is a
    contradiction, nothing is written and the exit code is 4.

    Copying is disabled for about three seconds. During this time tiersnap sets the topic's retention and local
    retention to endless, because with a finite one the broker would delete remote segments too. The topic's configs
    are saved in remote storage first: if the command is killed, the same command puts them back and finishes, except
    for configs that somebody else has changed. If a
    broker refuses them, only copying is enabled, the rest is printed as a line of kafka-configs, and the exit code is
    4. Runs on one topic wait for each other. Copying that somebody else has disabled stays disabled.

    If the cluster refuses those settings (ZooKeeper mode, Kafka before 3.9), segments are tiered and published, and a
    restart of the leader is what makes its copier look.
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
    summary = _summary(done, request) if rows else None
    findings = done.tiered.findings if rows else ()
    output.rows(FreedPartition, rows, summary=summary, findings=findings, errors=errors)
    tell_place(output, done.proof)
    tell_failures(output, errors)
    output.warn(*(each.says() for each in done.lost_epochs))
    cures = chain.from_iterable(each.cure() for each in done.lost_epochs)
    output.talk(*dict.fromkeys(map(next_place.text, cures)))
    if rows:
        _tell_freed(output, done, rows, apply=request.apply)
    elif not done.lost_epochs:
        looked_at = count_of(done.candidates, "tiered partition")
        idle = "brokers copy no partition of LOGDIR now: none can be stuck"
        output.talk(f"none of {looked_at} is stuck" if done.candidates else idle)
    return exit_code_of(done.problems())


def _summary(done: Unblocked, request: HostRequest) -> UnblockSummary:
    tiered = done.tiered
    counts = len(tiered.copied), tiered.counts.snapshots_mended
    summary = UnblockSummary(request.tierer.run_id, *counts, *place_fields(done.proof))
    return summary if request.apply else replace(summary, plan=tiered.plan)


def _tell_freed(output: Output, done: Unblocked, rows: Iterable[FreedPartition], *, apply: bool) -> None:
    """Print the next steps of the partitions, and of a plan also the segments that --apply would upload."""
    from tiersnap.snapshot.replay.remote_listing import Encryption

    tell_mended(output, done.tiered.counts.snapshots_mended)
    output.warn(*sorted({row.hint for row in rows if row.hint}))
    if apply:
        return
    tell_unknown_encryption(output, done.tiered.encryption[Encryption.UNKNOWN])
    if done.tiered.plan:
        output.talk(done.tiered.plan.sentence)
    output.talk(f"nothing was tiered, published or set; next: {again('--apply')}")
