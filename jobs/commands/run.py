"""`tiersnap run`: decode, snapshot, tier and report, on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.command import Command, command
from tiersnap.jobs.cli.next_command import kept_options
from tiersnap.jobs.cli.option_types import HTTP_URL, TIME, LocalPath, once
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.publish_options import PublishRequest, publishing_options, tell_published, to_publish
from tiersnap.jobs.cli.sentences import (
    NOTHING_TO_TIER,
    ByName,
    print_replicas_without_producers,
    tell_failures,
    tell_finished_copies,
    tell_in_remote,
    tell_left_to_brokers,
    tell_mended,
    tell_unknown_encryption,
)
from tiersnap.jobs.pipeline.spark_options import SparkRequest, spark_options
from tiersnap.jobs.telemetry.lineage import LineageRun, lineage
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.gate.verdict import TO_UPLOAD, Verdict, may_be_tiered
from tiersnap.snapshot.masking import masked
from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers
from tiersnap.snapshot.report.run_info import RunCounts
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.outcome import RunOutcome
    from tiersnap.jobs.pipeline.settings import RunSettings
    from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.gate.printed_steps import Place

_WORDS = "tiersnap.words"


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """A verdict of `run`, and the number of its segments."""

    COLUMNS: ClassVar = ("verdict", "segments")
    verdict: Verdict
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The outcome of `run`."""

    run_id: str
    counts: RunCounts
    ready_elsewhere: ByName | UnsetType = UNSET
    encryption_unknown: Annotated[
        int, Meta(description="partitions without a manifest that shows whether the plugin encrypts")
    ]
    replicas_without_producers: Annotated[
        list[ReplicaWithoutProducers] | UnsetType,
        Meta(description="replicas that lost active producers; `replicas_without_producers_count` counts all of them"),
    ] = UNSET
    replicas_without_producers_count: int | UnsetType = UNSET
    finding_count: Annotated[int, Meta(description="number of all findings; `findings` has only the first ones")]
    error_count: Annotated[int, Meta(description="number of all errors; `errors` has only the first ones")]
    seconds: Annotated[dict[str, float], Meta(description="duration by stage")]
    report: str


class _KeepsWords(Command):
    """A command that stores its unparsed words, for --print-submit."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store the words, then parse them."""
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)


def _settings(
    sources: tuple[str, ...],
    remote: str,
    warehouse: str,
    layout: str,
    expiration: int | None,
    as_of: int | None,
    producer_expiration: int | None,
    every_boundary: bool,
    replace: bool,
    scan: str,
    topic_ids: Path | None,
    log_starts: opt.LogStarts,
    leaders: tuple[str, ...],
    topic: str | None,
    check_crc: bool,
    stores: opt.StoreSettings,
    rate: int | None,
    until: int | None,
    allow_plaintext: bool,
    left_for: int | None,
    no_upload: bool,
    apply: bool,
) -> RunSettings:
    from tiersnap.jobs.cli.text_files import read_topic_ids
    from tiersnap.jobs.pipeline.settings import RunSettings
    from tiersnap.snapshot.log.places import located
    from tiersnap.snapshot.replay.expiry import ReplayOptions, Scan

    return RunSettings(
        sources=sources,
        remote=remote,
        warehouse=located(warehouse),
        replay=ReplayOptions(expiration, as_of, producer_expiration, every_boundary, replace, Scan(scan)),
        layout=layout,
        stores=stores,
        rate=rate,
        topic=topic,
        topic_ids=read_topic_ids(topic_ids),
        log_starts={f"{name}-{number}": offset for (name, number), offset in log_starts.items()},
        leaders=leaders,
        check_crc=check_crc,
        until=until,
        allow_plaintext=allow_plaintext,
        left_for=left_for,
        no_upload=no_upload,
        apply=apply,
        options=kept_options(click.get_current_context()),
    )


# The command receives these options as `settings: RunSettings`.
run_options = opt.as_one(
    "settings",
    _settings,
    click.option(
        "--source",
        "sources",
        multiple=True,
        required=True,
        help="Log directory, or the output of `tiersnap collect`: a path, file:, s3: or hdfs:; repeatable.",
    ),
    opt.remote_option,
    opt.warehouse_option,
    opt.layout_option,
    opt.expiration_option,
    opt.as_of_option,
    opt.producer_expiration_option,
    opt.every_boundary_option,
    opt.replace_option,
    click.option(
        "--scan",
        type=click.Choice(("exact", "window")),
        default="exact",
        show_default=True,
        help="Segments to decode. exact: all segments that are not in remote storage. window: only segments younger "
        "than --expiration, for a first run over a long log.",
    ),
    opt.topic_ids_option,
    opt.log_start_option,
    click.option(
        "--leader",
        "leaders",
        multiple=True,
        help="Source to read a partition from, if several sources have a replica of it; repeatable.",
    ),
    opt.topic_option,
    opt.crc_option,
    opt.store_options,
    opt.rate_option(
        "Limit of segment bytes sent per second by all workers together. The limit is divided among at most "
        "spark.sql.shuffle.partitions tasks"
    ),
    once(
        "--until",
        type=TIME,
        help="Stop in each partition before the first segment whose largest timestamp is this time or later.",
    ),
    opt.allow_plaintext_option,
    opt.leave_to_broker_option,
    once("--no-upload", is_flag=True, help="With --apply: write to the tables, but not to remote storage."),
    opt.apply_option("Write to the tables and to remote storage; without --apply print the plan."),
)


@command(VerdictCount, summary=RunSummary, cls=_KeepsWords)
@run_options
@opt.cluster_options(
    "Broker of the cluster. run asks it for tiered segments and working copy tasks. Without --leader, run also asks "
    "it for the leaders."
)
@publishing_options
@spark_options
@metrics_options
@click.option(
    "--openlineage",
    type=HTTP_URL,
    metavar="URL",
    help="Send the start and the end of the run to this OpenLineage server.",
)
@click.option(
    "--report",
    type=LocalPath(file_okay=False),
    default="tiersnap-report",
    show_default=True,
    help="Folder of the readiness report.",
)
@click.option(
    "--print-submit", is_flag=True, help="Print the spark-submit line for this run, and exit without running it."
)
def run(
    output: Output,
    settings: RunSettings,
    cluster: opt.Cluster | None,
    publishing: PublishRequest,
    spark: SparkRequest,
    sinks: Sinks,
    openlineage: str | None,
    report: Path,
    print_submit: bool,
) -> int:
    r"""Decode, snapshot, tier and report.

    tiersnap run --source /mnt/broker-1 --remote s3://bucket/tiers
    tiersnap run --source /mnt/broker-1 --source /mnt/broker-2 \
      --remote s3://bucket/tiers --warehouse s3://lake/tiersnap --apply
    tiersnap run --source /mnt/broker-1 --remote s3://bucket/tiers --print-submit

    The command computes the missing producer snapshots, uploads every segment that may be tiered, and reports why the
    other segments may not. The next run reads only new and changed segments.

    Without --apply the command reads the tables, decodes new segments, and writes only the report. With --apply
    --no-upload it also writes the tables, but uploads nothing.

    With --bootstrap-server the command publishes the uploaded segments, as `tiersnap publish` does. First it proves
    that brokers read the location. Then it pauses copying for about three seconds in each topic with uploaded segments,
    and publishes them. From then on brokers read the segments, and local retention deletes their files. Without a
    cluster, `tiersnap publish` publishes the segments later.

    If a running broker on this host uses a --source, and its configuration names another bucket, prefix, directory or
    layout than --remote, nothing is written, and the exit code is 4.
    """
    if print_submit:
        from tiersnap.jobs import run as submitted
        from tiersnap.jobs.pipeline.spark_start import submit_line

        ctx = click.get_current_context()
        file, config = Path(submitted.__file__).absolute(), ctx.find_root().params.get("config_path")
        click.echo(masked(submit_line(file, ctx.meta[_WORDS], spark.master, spark.conf, config=config)))
        return exit_code_of(())
    from tiersnap.jobs.pipeline.run import run as run_pipeline
    from tiersnap.jobs.telemetry.host_report import write_report_and_metrics

    tracked = LineageRun(settings.run_id, "run", settings.sources, settings.outputs)
    with lineage(openlineage, tracked):
        outcome = run_pipeline(
            spark.session,
            settings,
            cluster=cluster,
            publishes=lambda store: _publisher(publishing, cluster, store, settings, output),
            talk=output.talk,
        )
        code = exit_code_of(outcome.problems(settings))
        tracked.facts |= outcome.as_facts() | {"exit_code": int(code)}
    if (made := outcome.report) is not None:
        write_report_and_metrics(made, code, report, sinks, errors=outcome.error_count, seconds=outcome.seconds)
    show(output, outcome, settings, report, is_fine=not code)
    return code


def _publisher(
    publishing: PublishRequest,
    cluster: opt.Cluster | None,
    store: ObjectStore,
    settings: RunSettings,
    output: Output,
) -> PublishUploads | None:
    from tiersnap.jobs.situation.situation import Given, gather
    from tiersnap.snapshot.log.selection import Selection

    if cluster is None:
        return None
    given = Given(settings.sources, None, settings.remote, settings.layout, settings.stores, cluster)
    expiry = settings.replay.broker_expiry(settings.now)
    chosen = gather(given), store, Selection(settings.topics), expiry
    return publishing.publisher(*chosen, output.talk, apply=settings.uploads)


def show(output: Output, outcome: RunOutcome, settings: RunSettings, report: Path, *, is_fine: bool) -> None:
    """Print the results of a run, and the next steps."""
    from tiersnap.snapshot.gate.next_steps import TIER_HERE
    from tiersnap.snapshot.gate.printed_steps import next_steps
    from tiersnap.snapshot.replay.window_start import UNSEEN
    from tiersnap.snapshot.report.step_place import judged_place

    done, verdicts = outcome.counts, outcome.verdicts
    summary = _summary(outcome, settings.run_id, report)
    rows = [VerdictCount(verdict, verdicts[verdict]) for verdict in Verdict if verdicts.get(verdict)]
    output.rows(VerdictCount, rows, summary=summary, findings=outcome.findings, errors=outcome.errors)
    place = judged_place(settings.sources, settings.remote, settings.warehouse, settings.options)
    _tell_troubles(output, outcome, place)
    tell_published(output, outcome.published, place, {} if settings.uploads else to_publish(outcome.published, {}))
    tell_mended(output, done.snapshots_mended)
    tell_left_to_brokers(output, verdicts)
    if settings.replay.scan == "window":
        for unseen in UNSEEN:
            output.talk(f"--scan window does not find {unseen}")
        output.talk("to find these transactions, markers and errors: --scan exact")
    output.warn(*next_steps(verdicts, place.clears))
    for log_dir, count in outcome.ready_elsewhere.items():
        output.talk(
            f"READY, but not uploaded by this run: {count_of(count, 'segment')}, because `tiersnap collect` copies "
            f"no segment files. On the host of {log_dir}: {place.text(TIER_HERE)}"
        )
    if settings.uploads:
        _tell_uploaded(output, outcome, is_done=is_fine and not verdicts.get(Verdict.UPLOADED))
    else:
        if TO_UPLOAD & verdicts.keys():
            tell_unknown_encryption(output, outcome.encryption_unknown)
        output.talk(_next_of(outcome, settings, place))
    tell_in_remote(output, verdicts, place.clears)


def _tell_uploaded(output: Output, outcome: RunOutcome, *, is_done: bool) -> None:
    """Print how many copy attempts needed no upload. If there are none and the run wrote nothing, print this fact."""
    if outcome.copies_finished:
        tell_finished_copies(output, outcome.copies_finished)
    elif outcome.did_nothing:
        nothing = "no object was written, and no Delta table changed"
        output.talk(f"nothing to do: {nothing}" if is_done else nothing)


def _summary(outcome: RunOutcome, run_id: str, report: Path) -> RunSummary:
    return RunSummary(
        run_id=run_id,
        counts=outcome.counts,
        ready_elsewhere=outcome.ready_elsewhere or UNSET,
        encryption_unknown=outcome.encryption_unknown,
        replicas_without_producers=outcome.replicas_without_producers or UNSET,
        replicas_without_producers_count=outcome.replicas_without_producers_count or UNSET,
        finding_count=outcome.finding_count,
        error_count=outcome.error_count,
        seconds={name: round(value, 2) for name, value in outcome.seconds.items()},
        report=str(report / "index.html"),
    )


def _next_of(outcome: RunOutcome, settings: RunSettings, place: Place) -> str:
    """Return the last line that a run without uploads prints. It names the next command, if one is needed."""
    can_tier = may_be_tiered(outcome.verdicts, settings.replay)
    may_upload = any((can_tier, outcome.has_leftovers, outcome.error_count))
    if not may_upload and not outcome.has_rows:
        return NOTHING_TO_TIER
    following = f"next: {place.clears(Verdict.READY)}"
    if not settings.apply:
        return f"nothing was written; {following}"
    if may_upload:
        return f"nothing was written to remote storage; {following}"
    return "the tables were written; no segment can be tiered now"


def _tell_troubles(output: Output, outcome: RunOutcome, place: Place) -> None:
    """Print the replicas without producers, the unknown topics, the number of unprinted findings, and the errors."""
    print_replicas_without_producers(output, outcome.replicas_without_producers, place)
    for topic in outcome.unknown_topics:
        output.warn(f"--topic-ids names the topic {topic}, but no source has a partition of it")
    if outcome.finding_count > len(outcome.findings):
        output.warn(
            f"… and {count_of(outcome.finding_count - len(outcome.findings), 'finding')} more: the report has all of "
            "them"
        )
    tell_failures(output, outcome.errors, outcome.error_count)
