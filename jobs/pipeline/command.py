"""What the commands that run the pipeline share: their options, what is said of a run and its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path

import click

from tiersnap.jobs.again import kept_options
from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.once import once
from tiersnap.jobs.old_options.remote import (
    allow_plaintext_option,
    layout_name_option,
    leave_to_broker_option,
    rate_option,
    s3_options,
)
from tiersnap.jobs.old_options.together import with_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.topic_ids import read_topic_ids
from tiersnap.jobs.tell.encryption import tell_unknown_encryption
from tiersnap.jobs.tell.failures import tell_failures
from tiersnap.jobs.tell.finished_copies import tell_finished_copies
from tiersnap.jobs.tell.left_to_brokers import tell_left_to_brokers
from tiersnap.jobs.tell.mended import tell_mended
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.log.places import located
from tiersnap.snapshot.readiness.exit_codes import exit_code_of, next_steps
from tiersnap.snapshot.readiness.judge import Verdict
from tiersnap.snapshot.replay.scan_window import UNSEEN
from tiersnap.snapshot.tasks.carry_options import CarryOptions, Scan
from tiersnap.snapshot.units import count_of


def run_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options of a run, given to the command as `settings: RunSettings`."""

    @wraps(command)
    def with_settings(
        *args: object,
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
        leaders: tuple[str, ...],
        topic: str | None,
        check_crc: bool,
        s3: S3Settings,
        rate: int | None,
        until: int | None,
        allow_plaintext: bool,
        left_for: int | None,
        apply: bool,
        **kwargs: object,
    ) -> object:
        settings = RunSettings(
            sources=sources,
            remote=remote,
            warehouse=located(warehouse),
            carry=CarryOptions(expiration, as_of, producer_expiration, every_boundary, replace, Scan(scan)),
            layout=layout,
            s3=s3,
            rate=rate,
            topic=topic,
            topic_ids=read_topic_ids(topic_ids) if topic_ids else {},
            leaders=leaders,
            check_crc=check_crc,
            until=until,
            allow_plaintext=allow_plaintext,
            left_for=left_for,
            apply=apply,
            options=kept_options(click.get_current_context()),
        )
        return command(*args, settings=settings, **kwargs)

    return with_options(with_settings, _OPTIONS)


_OPTIONS: tuple[Callable[[Callable[..., object]], Callable[..., object]], ...] = (
    click.option(
        "--source",
        "sources",
        multiple=True,
        required=True,
        help="A log directory, or what `tiersnap collect` shipped of one: path, file:, s3: or hdfs:.",
    ),
    click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory."),
    click.option("--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables."),
    layout_name_option,
    params.expiration_option,
    params.as_of_option,
    params.producer_expiration_option,
    click.option(
        "--all", "every_boundary", is_flag=True, help="Write a snapshot for every boundary, not the missing only."
    ),
    click.option(
        "--replace", is_flag=True, help="Tier with computed snapshots where the broker's are CORRUPT or SUSPECT."
    ),
    click.option(
        "--scan",
        type=click.Choice([str(scan) for scan in Scan]),
        default=str(Scan.EXACT),
        show_default=True,
        help="exact decodes all that remote storage does not hold; window only what is within --expiration, for a "
        "first run over a long log.",
    ),
    click.option(
        "--topic-ids", type=click.Path(dir_okay=False, path_type=Path), help="Lines `topic id` for old topics."
    ),
    click.option(
        "--leader",
        "leaders",
        multiple=True,
        help="One of the sources: of several replicas of a partition the one that lies here is taken.",
    ),
    params.topic_option,
    params.crc_option,
    s3_options,
    rate_option(
        "Send no more segments' bytes a second from all workers together; each task that tiers has its share, of "
        "spark.sql.shuffle.partitions tasks at most"
    ),
    once(
        "--until",
        type=params.Time(),
        help="Tier only what ends before this time: of each partition the segments up to the first whose largest "
        "timestamp is not older.",
    ),
    allow_plaintext_option,
    leave_to_broker_option,
    click.option("--apply", is_flag=True, help="Write to remote storage; without it the run says what it would do."),
)


def tell(
    output: Output, command: str, outcome: RunOutcome, settings: RunSettings, more: Mapping[str, object] | None = None
) -> None:
    """Emit what a run found and did; `more` ends the summary."""
    counts = {str(verdict): outcome.verdicts[verdict] for verdict in Verdict if outcome.verdicts.get(verdict)}
    done = outcome.counts
    output.row_dicts(
        command,
        [{"verdict": verdict, "segments": count} for verdict, count in counts.items()],
        columns=("verdict", "segments"),
        summary={
            "run_id": settings.run_id,
            "segments_decoded": done.segments_decoded,
            "snapshots_written": done.snapshots_written,
            "snapshots_mended": done.snapshots_mended,
            "segments_tiered": done.segments_tiered,
            "bytes_tiered": done.bytes_tiered,
            "delta_commits": done.delta_commits,
            **({"ready_elsewhere": outcome.ready_elsewhere} if outcome.ready_elsewhere else {}),
            "encryption_unknown": outcome.encryption_unknown,
            "finding_count": outcome.finding_count,
            "error_count": outcome.error_count,
            "seconds": {name: round(value, 2) for name, value in outcome.seconds.items()},
            **(more or {}),
        },
        findings=outcome.findings,
        errors=outcome.errors,
    )
    tell_troubles(output, outcome)
    tell_mended(output, done.snapshots_mended)
    tell_left_to_brokers(output, outcome.verdicts)
    if settings.carry.scan is Scan.WINDOW:
        for unseen in UNSEEN:
            output.talk(f"--scan window does not see {unseen}")
        output.talk("--scan exact sees all of it")
    for line in next_steps(outcome.verdicts):
        output.warn(line)
    for place, count in outcome.ready_elsewhere.items():
        output.talk(
            f"READY and not tiered by this run: {count_of(count, 'segment')} of which only decodes were collected; "
            f"the bytes lie in {place}; there: tiersnap tier LOGDIR --remote {settings.remote} --apply"
        )
    if not settings.apply:
        tell_unknown_encryption(output, outcome.encryption_unknown if outcome.verdicts.get(Verdict.READY) else 0)
        output.talk("nothing was written to remote storage: give --apply")
    elif outcome.copies_finished:
        tell_finished_copies(output, outcome.copies_finished)
    elif outcome.did_nothing:
        output.talk("nothing to do: no object was written and no Delta version committed")


def tell_troubles(output: Output, outcome: RunOutcome) -> None:
    """Say what failed, and how much more is damaged than was said."""
    for topic in outcome.unknown_topics:
        output.warn(f"--topic-ids: no partition of the topic {topic} in any source")
    if outcome.finding_count > len(outcome.findings):
        output.warn(f"… and {count_of(outcome.finding_count - len(outcome.findings), 'finding')} more: see the report")
    tell_failures(output, outcome.errors, outcome.error_count)


def exit_code(outcome: RunOutcome, settings: RunSettings) -> ExitCode:
    """What could not be written, what is damaged, what the gate refused although it was asked to tier; else OK."""
    if outcome.is_damaged:
        return ExitCode.DATA_CORRUPT
    if outcome.error_count:
        if outcome.refused_count == outcome.error_count:
            return ExitCode.GATE_REFUSED
        return ExitCode.TRANSIENT if outcome.is_transient else ExitCode.PARTIAL
    if outcome.is_unread:
        return ExitCode.PARTIAL
    return exit_code_of(outcome.verdicts, apply=settings.apply)
