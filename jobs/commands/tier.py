"""`tiersnap tier`: upload the READY segments of one host, without Spark and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.next_command import again, host_place
from tiersnap.jobs.cli.option_types import LocalPath
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.publish_options import PublishRequest, publishing_options, tell_published, to_publish
from tiersnap.jobs.cli.remote_checks import read_checks, remote_checks_option
from tiersnap.jobs.cli.sentences import (
    NOTHING_TO_TIER,
    ByName,
    Leftovers,
    Mended,
    leftovers_by_kind,
    of_unlocated,
    tell_failures,
    tell_finished_copies,
    tell_in_remote,
    tell_left_to_brokers,
    tell_leftovers,
    tell_mended,
    tell_unknown_encryption,
)
from tiersnap.jobs.cli.situation_options import OF_CLUSTER, situation_options
from tiersnap.jobs.situation.situation import Situation
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.remote_storage.upload.tier_plan import TierPlan
from tiersnap.remote_storage.upload.upload_options import UploadOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
    from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
    from tiersnap.remote_storage.publish.publish import Published
    from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.remote_storage.upload.host_outcome import HostOutcome
    from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
    from tiersnap.remote_storage.upload.tier_job import Tierer
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.report.run_info import RunInfo


@dataclass(frozen=True)
class HostRequest(UploadOptions):
    """The options that `tier` and `unblock` share; durations in ms."""

    situation: Situation
    expiration: int | None
    as_of: int | None
    broker_expiry: opt.BrokerExpiry
    replace: bool
    topic_ids: Path | None
    topic: opt.TopicPattern
    check_crc: bool

    def __post_init__(self) -> None:
        opt.expiry(self.expiration, self.as_of, self.broker_expiry)

    @property
    def view(self) -> opt.RemoteView:
        """Return the remote location. Raises UsageError if it is unknown."""
        return self.situation.remote.require("remote location")

    @cached_property
    def store(self) -> ObjectStore:
        """Return the store of the remote location, limited by --max-bytes-per-second.

        Raises:
            WrongPlaceError: the brokers of this host read another location.
        """
        from tiersnap.remote_storage.stores.open_store import open_store
        from tiersnap.remote_storage.stores.paced_store import paced

        store = open_store(self.view.remote or "", self.view.stores, writes=self.apply)
        self.situation.refuse_contradiction(store)
        return paced(store, self.rate)

    @cached_property
    def tierer(self) -> Tierer:
        """Return the Tierer of this command. It has a new run id, which the command writes to its claims."""
        from tiersnap.remote_storage.upload.tier_job import Tierer
        from tiersnap.snapshot.report.run_info import new_run_id

        return Tierer(new_run_id(), self.broker_expiry.now)

    def host_in(self, location: RemoteLocation, *, every_boundary: bool = False) -> HostTier:
        """Return the HostTier for a location. Raise the store's error if the location cannot be listed."""
        from tiersnap.jobs.cli.text_files import read_topic_ids
        from tiersnap.remote_storage.upload.tier_host import HostTier
        from tiersnap.snapshot.replay.expiry import ReplayOptions

        next(iter(location.store.list()), None)
        expires = (self.expiration, self.as_of, self.broker_expiry.expiration)
        return HostTier(
            location,
            ReplayOptions(*expires, every_boundary, self.replace),
            self.tierer,
            topic_ids=read_topic_ids(self.topic_ids),
            check_crc=self.check_crc,
            allow_plaintext=self.allow_plaintext,
            apply=self.apply,
        )


def host_options(cluster_help: str = OF_CLUSTER) -> opt.Option:
    """Return the options of HostRequest. The command receives them as `request: HostRequest`."""
    return opt.as_one(
        "request",
        HostRequest,
        situation_options(cluster_help=cluster_help),
        opt.expiration_option,
        opt.as_of_option,
        opt.broker_expiry_options,
        opt.replace_option,
        opt.topic_ids_option,
        opt.topic_option,
        opt.crc_option,
        opt.rate_option("Limit of bytes sent to remote storage per second"),
        opt.allow_plaintext_option,
        opt.apply_option("Write to remote storage; without --apply print the plan."),
    )


@dataclass(frozen=True, slots=True)
class TieredPartition:
    """A partition of `tier`."""

    COLUMNS: ClassVar = ("partition", "segments", "planned", "uploaded", "verdicts", "findings")
    log_dir: str
    partition: str
    segments: int
    planned: Annotated[int, Meta(description="segments that --apply would upload; 0 if --apply is given")]
    uploaded: int
    verdicts: ByName
    findings: int


@dataclass(frozen=True, slots=True)
class TierSummary:
    """The outcome of `tier`. `bytes_uploaded` counts segments, indexes and snapshots."""

    NOT_TOLD: ClassVar = ("plan",)
    run_id: str
    snapshots_written: int
    snapshots_mended: Mended
    segments_uploaded: int
    bytes_uploaded: int
    leftovers_removed: Leftovers
    segments_published: int
    encryption: Annotated[
        dict[str, int] | UnsetType,
        Meta(
            description="number of partitions with segments to upload, by encryption in the plugin's manifests: "
            "PLAIN, ENCRYPTED or UNKNOWN; absent if no remote segments were listed, or if there is nothing to upload"
        ),
    ] = UNSET
    report: str | UnsetType = UNSET
    plan: Annotated[TierPlan | UnsetType, Meta(description="counts of the plan; absent with --apply")] = UNSET
    publish: Annotated[int | UnsetType, Meta(description="segments to publish; absent with --apply")] = UNSET


@command(TieredPartition, summary=TierSummary)
@host_options(
    "Broker of the cluster. tier asks it for copy tasks, and publishes segments.  [default: the broker of this host]"
)
@opt.log_start_option
@opt.leave_to_broker_option
@publishing_options
@opt.every_boundary_option
@click.option(
    "--upload-again",
    metavar="SEGMENT_ID",
    multiple=True,
    help="Read this segment, uploaded by tiersnap, completely. If the segment is damaged, upload it again under a new "
    "id.",
)
@click.option("--report", type=LocalPath(file_okay=False), help="Write the readiness page to this folder.")
@remote_checks_option
@metrics_options
def tier(
    output: Output,
    request: HostRequest,
    log_starts: opt.LogStarts,
    left_for: int | None,
    publishing: PublishRequest,
    every_boundary: bool,
    upload_again: tuple[str, ...],
    report: Path | None,
    checks_file: Path | None,
    sinks: Sinks,
) -> int:
    r"""Tier the READY segments of LOGDIR, and compute the snapshots that they lack.

    tiersnap tier
    tiersnap tier /var/lib/kafka/data --remote s3://bucket/tiers --apply
    tiersnap tier /var/lib/kafka/data --remote s3://bucket/tiers --topic orders \
      --max-bytes-per-second 50MiB --apply

    On the host of a running broker the command finds LOGDIR, the remote location and the cluster.

    Give all entries of the broker's log.dirs as LOGDIR: separate them with blanks or commas, or use a glob. The command
    is one process without Spark and tables. It keeps its state in remote storage, and claims each segment there, so
    that two hosts do not upload the segment twice.

    With a cluster the command publishes the uploaded segments, as `tiersnap publish` does. First it proves that brokers
    read the location. Then it pauses copying for about three seconds in each topic with uploaded segments, and
    publishes them. From then on brokers read the segments, and local retention deletes their files. Without a cluster,
    `tiersnap publish` publishes the segments later.

    With a cluster the command first checks that the cluster has the topic with the same id as LOGDIR. If it will
    publish, it also compares a record of LOGDIR with the leader's log. The leader's log must also reach the end of the
    segments. If a check fails, it uploads nothing of the partition.

    If a running broker uses LOGDIR, and its configuration names another bucket, prefix, directory or layout than
    --remote, nothing is written, and the exit code is 4.
    """
    from tiersnap.jobs.cli.text_files import unknown_topics
    from tiersnap.jobs.telemetry.host_report import host_run, write_report_and_metrics
    from tiersnap.remote_storage.layouts.remote_location import open_location
    from tiersnap.remote_storage.publish.publish import Published
    from tiersnap.remote_storage.publish.upload_check import UploadCheck
    from tiersnap.remote_storage.upload.host_outcome import HostOutcome
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.log.log_start import with_stated
    from tiersnap.snapshot.log.places import places_of
    from tiersnap.snapshot.log.selection import (
        Selection,
        count,
        findings_of,
        open_log_dirs,
        refuse_twice,
        selected_folders,
        selected_of,
    )

    checks = read_checks(checks_file, is_shown=report is not None)
    situation, unanswered = request.situation.answering(needs_remote=True)
    log_dirs = situation.log_dirs.require("log directories")
    copy_tasks = opt.CopyTaskSource(situation.cluster.value, left_for)
    location = open_location(request.store, request.view.layout)
    host = request.host_in(location, every_boundary=every_boundary)
    opened, selection = with_stated(open_log_dirs(log_dirs), log_starts), Selection(request.topic)
    chosen = situation, request.store, selection, request.broker_expiry
    publisher = publishing.publisher(*chosen, output.talk, apply=request.apply)
    refuse_twice(opened)
    swept = host.prepare_store(request.topic)
    host = host.with_answer(copy_tasks.about(opened, request.topic, output), copy_tasks.left_for)
    host = replace(
        host, finds_lost_producers=report is not None or sinks.is_any, log_start_of_now=copy_tasks.ask_log_start
    )
    if copy_tasks.cluster is not None:
        folders = chain.from_iterable(selected_folders(opened, selection))
        topics = {folder.rpartition("-")[0] for folder in folders}
        host = replace(host, refusal_of=UploadCheck.ask(copy_tasks.cluster, topics, publisher).refusal_of)
    host = host.uploading_again(upload_again, selected_of(opened, selection))
    progress = Progress(output, "tiering", count(opened, selection))
    tiered = tuple(host.partitions(copy_tasks.located(progress.watch(selected_of(opened, selection)))))
    done, places = HostOutcome(tiered, tuple(findings_of(opened)), host.place_errors()), places_of(log_dirs)
    published = Published(())
    if publisher is not None:
        published = _publish(publisher, done)
    remote = request.view.remote or ""
    info = host_run(request.tierer.run_id, places, now=host.tierer.now, remote=remote, applied=host.apply)
    counts = done.counts
    if host.apply:
        counts = replace(counts, segments_published=len(published.segment_ids))
    info = replace(info, source=", ".join(log_dirs), **vars(counts))
    problems = *done.problems(), *published.problems(), *unanswered
    code, errors = exit_code_of(problems), [*done.errors, *published.errors, *unanswered]
    if report is not None or sinks.is_any:
        from tiersnap.snapshot.report.model import with_remote_checks
        from tiersnap.snapshot.report.summary import summarise

        made = replace(
            summarise(list(done.readiness()), info), replicas_without_producers=done.replicas_without_producers()
        )
        made = with_remote_checks(made, checks)
        write_report_and_metrics(made, code, report, sinks, errors=len(errors))
    leftovers = leftovers_by_kind(done.leftovers_removed, swept)
    planned: dict[str, int] = {}
    if publisher is not None:
        planned = to_publish(published, done.planned_uploads)
    several, summary = len(opened) > 1, _summary(done, info, leftovers, report, planned)
    rows = map(_row, done.partitions)
    output.rows(TieredPartition, rows, several=several, summary=summary, findings=done.findings, errors=errors)
    tell_failures(output, errors)
    place = host_place([each.uri for each in opened], request.situation)
    tell_published(output, published, place, planned)
    tell_mended(output, info.snapshots_mended)
    tell_leftovers(output, done.leftovers_removed, swept)
    tell_left_to_brokers(output, done.verdicts)
    may_write = done.may_write or bool(planned)
    _tell_next(output, done, info, place, may_write=may_write, is_fine=not code)
    for topic in unknown_topics(host.topic_ids, {each.partition.topic for each in done.partitions}, request.topic):
        output.warn(f"--topic-ids names the topic {topic}, but {info.source} has no partition of it")
    return code


def _publish(publisher: PublishUploads, done: HostOutcome) -> Published:
    from tiersnap.remote_storage.metadata.segment_metadata import name_of

    waiting, topics = [], set()
    for each in done.partitions:
        topics.add(each.partition.topic)
        if each.awaits_records:
            waiting.append(name_of(each.partition))
    published = publisher.run(waiting, topics, done.uploaded_ids, uploads=done.planned_uploads.keys())
    ends: dict[TopicIdPartition, int] = {}
    if publisher.place.apply:
        ends = {plan.partition: plan.next_offset for plan in published.plans if plan.refusal is None}
    for each in done.partitions:
        each.note_published(ends.get(name_of(each.partition), 0))
    return published


def _row(each: HostPartition) -> TieredPartition:
    return TieredPartition(
        log_dir=each.log_dir,
        partition=each.partition.name,
        segments=len(each.segments),
        planned=each.plan.segments,
        uploaded=sum(event.is_finished for event in each.events),
        verdicts={str(verdict): count for verdict, count in each.verdicts.most_common()},
        findings=len(each.findings),
    )


def _summary(
    done: HostOutcome, info: RunInfo, leftovers: dict[str, int], report: Path | None, planned: Mapping[str, int]
) -> TierSummary:
    summary = TierSummary(
        run_id=info.run_id,
        snapshots_written=info.snapshots_written,
        snapshots_mended=info.snapshots_mended,
        segments_uploaded=info.segments_uploaded,
        bytes_uploaded=info.bytes_uploaded,
        segments_published=info.segments_published,
        leftovers_removed=leftovers,
        encryption=dict(done.encryption) or UNSET,
        report=UNSET if report is None else str(report / "index.html"),
    )
    if info.applied:
        return summary
    return replace(summary, plan=done.plan, publish=sum(planned.values()))


def _tell_next(
    output: Output, done: HostOutcome, info: RunInfo, place: Place, *, may_write: bool, is_fine: bool
) -> None:
    from tiersnap.snapshot.gate.printed_steps import next_steps
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.replay.remote_listing import Encryption

    output.warn(*of_unlocated(done.unlocated, remote=False))

    def step_of(verdict: Verdict) -> str:
        return place.beside(done.file_of(verdict)).clears(verdict)

    # Warnings, so that cron mails these lines even with --quiet.
    output.warn(*next_steps(done.verdicts_to_clear, step_of))
    if not info.applied:
        tell_unknown_encryption(output, done.encryption[Encryption.UNKNOWN])
        if done.plan:
            output.talk(done.plan.sentence)
        output.talk(_next_of_plan(done.plan, may_write=may_write, has_failed=bool(done.errors)))
    elif done.copies_finished:
        tell_finished_copies(output, done.copies_finished)
    elif not info.segments_uploaded and not info.snapshots_written and not info.segments_published:
        is_done = is_fine and not done.verdicts[Verdict.UPLOADED]
        output.talk("nothing to do: no object was written" if is_done else "no object was written")
    tell_in_remote(output, done.verdicts_to_clear, step_of)


def _next_of_plan(plan: TierPlan, *, may_write: bool, has_failed: bool) -> str:
    if not may_write:
        return "no segment can be tiered before the failures are cured" if has_failed else NOTHING_TO_TIER
    if plan.snapshots and not plan.segments:
        return "nothing was written to remote storage; --apply would write snapshots, but upload no segment now"
    return f"nothing was written to remote storage; next: {again('--apply')}"
