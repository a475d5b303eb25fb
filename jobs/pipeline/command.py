"""What the commands that run stages share: their options, the run itself, what is said of it and the exit code."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path

import click

from tiersnap.jobs.engine import Engine, LocalEngine
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.remote import layout_option, s3_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.pipeline.run import Outcome, run_stages
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.topic_ids import read_topic_ids
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.readiness import Verdict
from tiersnap.snapshot.log.log_dir import located
from tiersnap.snapshot.stages.carry_plan import CarryOptions
from tiersnap.snapshot.units import human_bytes

MOST_LINES = 20
_REFUSALS = (Verdict.MISSING_SNAPSHOT, Verdict.CORRUPT_SNAPSHOT, Verdict.SUSPECT_SNAPSHOT)


@dataclass(frozen=True)
class StageRequest:
    """A run as it was asked for on the command line."""

    settings: RunSettings
    store: ObjectStore
    layout: Layout
    make_engine: Callable[[], Engine]

    def run(self, talk: Callable[[str], None]) -> Outcome:
        """List, decode, carry, tier."""
        if self.settings.apply:
            # A bucket that is not there or refuses is better known before the work than after it.
            next(iter(self.store.list()), None)
        return run_stages(self.make_engine(), self.settings, store=self.store, layout=self.layout, talk=talk)


def stage_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options of a run, given to the command as `request: StageRequest`."""

    @wraps(command)
    def with_request(
        *args: object,
        sources: tuple[str, ...],
        remote: str,
        warehouse: str,
        layout: Layout,
        engine: str,
        master: str,
        spark_conf: tuple[str, ...],
        expiration: int | None,
        as_of: int | None,
        producer_expiration: int | None,
        every_boundary: bool,
        replace: bool,
        topic_ids: Path | None,
        topic: re.Pattern[str] | None,
        check_crc: bool,
        keep: str,
        s3: S3Settings,
        apply: bool,
        **kwargs: object,
    ) -> object:
        now = params.clock(click.get_current_context())
        params.expiry(expiration, as_of, now, producer_expiration)
        settings = RunSettings(
            sources=tuple(located(source) for source in sources),
            warehouse=located(warehouse),
            run_id=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ-") + uuid.uuid4().hex[:6],
            now=now,
            carry=CarryOptions(expiration, as_of, producer_expiration, every_boundary, replace),
            remote=remote,
            topic=topic,
            topic_ids=read_topic_ids(topic_ids) if topic_ids else {},
            check_crc=check_crc,
            keep_headers=keep == "headers",
            apply=apply,
        )
        request = StageRequest(
            settings, open_store(remote, s3), layout, lambda: make_engine(engine, master, spark_conf)
        )
        return command(*args, request=request, **kwargs)

    decorated: Callable[..., object] = with_request
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS: tuple[Callable[[Callable[..., object]], Callable[..., object]], ...] = (
    click.option(
        "--source", "sources", multiple=True, required=True, help="A log directory: path, file:, s3: or hdfs:."
    ),
    click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory."),
    click.option("--warehouse", default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables."),
    layout_option,
    click.option("--engine", type=click.Choice(["spark", "local"]), default="spark", show_default=True),
    click.option("--master", default="local[*]", show_default=True, help="Spark master; a spark-submit's own wins."),
    click.option(
        "--spark-conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting, over conf/spark-defaults.conf."
    ),
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
        "--topic-ids", type=click.Path(dir_okay=False, path_type=Path), help="Lines `topic id` for old topics."
    ),
    params.topic_option,
    params.crc_option,
    click.option(
        "--keep",
        type=click.Choice(["headers", "deltas"]),
        default="headers",
        show_default=True,
        help="What the decode stores: every batch header, or only what the fold needs.",
    ),
    s3_options,
    click.option("--apply", is_flag=True, help="Write to remote storage; without it the run says what it would do."),
)


def make_engine(engine: str, master: str, spark_conf: tuple[str, ...]) -> Engine:
    """The engine of --engine."""
    if engine == "local":
        return LocalEngine(os.cpu_count() or 1)
    from tiersnap.jobs.session import spark_engine

    return spark_engine(master, spark_conf)


def tell(
    output: Output, command: str, outcome: Outcome, settings: RunSettings, more: Mapping[str, object] | None = None
) -> None:
    """Emit what a run found and did; `more` ends the summary."""
    counts = {str(verdict): outcome.count(verdict) for verdict in Verdict if outcome.count(verdict)}
    rows = [{"verdict": verdict, "segments": count} for verdict, count in counts.items()]
    output.rows(
        command,
        rows,
        columns=("verdict", "segments"),
        summary={
            "run_id": settings.run_id,
            "segments_decoded": outcome.decoded.count,
            "snapshots_written": outcome.carried.written,
            "segments_tiered": outcome.tiered.segments,
            "bytes_tiered": human_bytes(outcome.tiered.bytes),
            "delta_commits": outcome.commits,
            "seconds": {name: round(value, 2) for name, value in outcome.seconds.items()},
            **(more or {}),
        },
    )
    tell_troubles(output, outcome)
    if not settings.apply:
        output.talk("nothing was written to remote storage: give --apply")
    elif outcome.did_nothing:
        output.talk("nothing to do: no object was written and no Delta version committed")


def tell_troubles(output: Output, outcome: Outcome) -> None:
    """Say what is damaged and what failed."""
    for finding in outcome.findings[:MOST_LINES]:
        output.warn(f"{finding['kind']}: {finding['path']}: {finding['message']}")
    if len(outcome.findings) > MOST_LINES:
        output.warn(f"… and {len(outcome.findings) - MOST_LINES} findings more: see the report")
    for error in outcome.errors[:MOST_LINES]:
        output.warn(f"failed: {error}")


def exit_code(outcome: Outcome, settings: RunSettings) -> ExitCode:
    """What could not be written, what is damaged, what the gate refused although it was asked to tier; else OK."""
    if outcome.errors:
        return ExitCode.TRANSIENT if outcome.is_transient else ExitCode.PARTIAL
    if outcome.count(Verdict.CORRUPT_SEGMENT):
        return ExitCode.DATA_CORRUPT
    refused = sum(outcome.count(verdict) for verdict in _REFUSALS)
    return ExitCode.GATE_REFUSED if settings.apply and refused else ExitCode.OK
