"""Verify remote segments for `tiersnap verify`, on this host or with Spark, and print the result."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.next_command import again
from tiersnap.jobs.cli.option_types import DURATION, LocalPath, Parsed, once
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.pipeline.spark_options import SparkRequest
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.snapshot.errors import TiersnapError, UsageError
from tiersnap.snapshot.gate.remote_check import (
    CheckDepth,
    CheckRequest,
    RemoteCheck,
    RemoteVerdict,
)
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.jobs.situation.situation import Situation
    from tiersnap.remote_storage.cluster.client import Cluster
    from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
    from tiersnap.remote_storage.remote_log.log_head import KnownLogStart
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.remote_storage.verify.check_plan import CheckPlan
    from tiersnap.remote_storage.verify.local_log import LocalLog, LocalLogs
    from tiersnap.snapshot.formats.checkpoints import TopicPartition
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.log.leader_epochs import Interval
    from tiersnap.snapshot.log.selection import Selection
    from tiersnap.snapshot.report.remote_checks import Key

    Known = Mapping[Key, Mapping[str, RemoteCheck]]

COLUMNS = ("topic", "partition", "base_offset", "next_base_offset", "segment_id", "verdict", "compared_with", "reason")
_SAMPLE = re.compile(r"(0*[1-9][0-9]*)|([0-9]+(?:\.[0-9]+)?)%")


@dataclass(frozen=True, slots=True)
class SegmentSample:
    """The size of a sample: a number of segments, or a percentage."""

    number: int | None = None
    percent: float | None = None

    def __str__(self) -> str:
        """Return the size as a user types it."""
        return f"{self.number}" if self.percent is None else f"{self.percent:g}%"


def _sample(text: str) -> SegmentSample:
    if found := _SAMPLE.fullmatch(text):
        number, percent = found.groups("")
        if number:
            return SegmentSample(number=int(number))
        if 0 < float(percent) <= 100:
            return SegmentSample(percent=float(percent))
    raise ValueError(f"{text!r} is not a sample; give a number of segments such as 100, or a percentage such as 5%")


@dataclass(frozen=True, slots=True)
class TierRequest:
    """The options for verifying remote segments; `recheck` in ms."""

    depth: CheckDepth | None
    sample: SegmentSample | None
    resume: Path | None
    warehouse: str | None
    recheck: int | None

    def refuse_beside_files(self) -> None:
        """Raise UsageError for --sample, --resume or --warehouse: they cannot be used if local files are verified."""
        given = {"--sample": self.sample, "--resume": self.resume, "--warehouse": self.warehouse}
        for name, value in given.items():
            if value is not None:
                why = f"{name} is only for remote storage, but this command also verifies the files of LOGDIR"
                alone = "" if name == "--warehouse" else "add --depth snapshots, or "
                raise UsageError(why, hint=f"{alone}leave LOGDIR out")

    def refuse_beside_spark(self, *, has_log_dirs: bool, names_cluster: bool) -> None:
        """Raise UsageError if LOGDIR, --resume or a cluster is given. A verification on Spark takes none of them."""
        if has_log_dirs or self.resume is not None:
            raise UsageError(
                "--warehouse verifies on Spark, but LOGDIR and --resume belong to a single host",
                hint="give either log directories of this host, or --warehouse",
            )
        if names_cluster:
            raise UsageError(
                "--warehouse verifies on Spark, and Spark tasks cannot ask the cluster",
                hint="remove --bootstrap-server, or remove --warehouse",
            )


def _request(
    depth: str | None, sample: SegmentSample | None, resume: Path | None, warehouse: str | None, recheck: int | None
) -> TierRequest:
    return TierRequest(None if depth is None else CheckDepth(depth), sample, resume, warehouse, recheck)


# The command receives these options as `tier: TierRequest`.
tier_options = opt.as_one(
    "tier",
    _request,
    once(
        "--depth",
        type=click.Choice([each.value for each in CheckDepth]),
        help="Verify only remote storage, not LOGDIR. metadata: metadata only; snapshots: also every snapshot; full: "
        "every byte.  [default: snapshots, and the files of LOGDIR]",
    ),
    once(
        "--sample",
        type=Parsed("sample", _sample, str),
        metavar="N|PERCENT",
        help="Verify only this many remote segments, chosen at random: a number or a percentage, such as 100 or 5%.",
    ),
    once(
        "--resume",
        type=LocalPath(dir_okay=False),
        help="Skip segments that this file reports as sound. The file has the JSON lines of an earlier call; you may "
        "append the new output to it.",
    ),
    once(
        "--warehouse",
        metavar="URI",
        help="Verify on Spark, store the results in the table remote_checks, and skip segments with a result.",
    ),
    click.option(
        "--recheck",
        type=DURATION,
        default="30d",
        show_default=True,
        help="With --warehouse: verify a segment again once its result is older than this; `none` verifies each "
        "segment once.",
    ),
)


_UNREAD = (RemoteVerdict.NOT_CHECKABLE, RemoteVerdict.GONE)


@dataclass
class CheckTally:
    """The counts of verified remote segments, and the errors of partitions that were not verified."""

    verdicts: Counter[RemoteVerdict] = field(default_factory=Counter)
    bytes: int = 0
    skipped: int = 0
    ranges: int = 0  # rows about offsets that no segment contains
    refusals: list[TiersnapError] = field(default_factory=list)

    def watch(self, checks: Iterable[RemoteCheck]) -> Iterator[RemoteCheck]:
        """Yield the checks, and count them."""
        for each in checks:
            self.verdicts[each.verdict] += 1
            self.bytes += each.bytes
            self.ranges += not each.segment_id
            yield each

    def sentence(self, depth: CheckDepth) -> str:
        """Return the counts as a sentence."""
        said = "no remote segment was verified"
        if there := self.verdicts.total() - self.verdicts[RemoteVerdict.GONE] - self.ranges:
            said = f"{self._sound()} of {count_of(there, 'remote segment is sound', 'remote segments are sound')}"
        said += f" at depth {depth}, {human_bytes(self.bytes)}"
        counts = [f"{self.verdicts[each]} {each}" for each in RemoteVerdict if self.verdicts[each]]
        if counts:
            said += f": {', '.join(counts)}"
        unread = self.verdicts[RemoteVerdict.NOT_CHECKABLE]
        others = (
            (self.ranges, "range of offsets is", "ranges of offsets are", "in no segment"),
            (unread, "encrypted segment was", "encrypted segments were", "not read"),
            (self.skipped, "segment was", "segments were", "skipped"),
        )
        for count, one, many, outcome in others:
            if count:
                said += f"; {count_of(count, one, many)} {outcome}"
        return said

    def _sound(self) -> int:
        sound = 0
        for verdict, count in self.verdicts.items():
            if verdict.is_sound and verdict not in _UNREAD:
                sound += count
        return sound


@dataclass(frozen=True)
class TierVerification:
    """The verification of remote segments, run on this host.

    Attributes:
        view: the remote location.
        selection: partitions to verify.
        tier: options of the command.
        asked: depth, current time and expiration.
        local_logs: logs to compare with. Only their partitions are verified; None for all partitions.
        cluster: asked for log start offsets; None to use the offsets of local logs only.
    """

    view: RemoteView
    selection: Selection
    tier: TierRequest
    asked: CheckRequest
    local_logs: LocalLogs | None
    cluster: Cluster | None = None

    def run(self, output: Output, tally: CheckTally) -> tuple[Iterator[RemoteCheck], CheckTally]:
        """Print the plan. Return the checks, which run when the caller reads them, and `tally`, which counts them."""
        known = _known(self.tier.resume)
        plan = _planned(self.view, self.tier, self.asked, self._is_wanted)
        output.talk(plan.sentence)
        tally.refusals += plan.refusals
        return tally.watch(self._checks(output, plan, known, tally)), tally

    def _is_wanted(self, partition: TopicPartition) -> bool:
        return self.selection.takes(partition) and (self.local_logs is None or partition in self.local_logs)

    def _checks(self, output: Output, plan: CheckPlan, known: Known, tally: CheckTally) -> Iterator[RemoteCheck]:
        from tiersnap.remote_storage.verify.partition_check import PartitionCheck

        progress = Progress(output, "verifying", len(plan.partitions))
        for partition in progress.watch_done(sorted(plan.partitions, key=str)):
            local = compare = local_from = None
            if self.local_logs is not None:
                local = self.local_logs.of(partition)
            if local is not None:
                compare, local_from = local.compare, local.partition.first_base_offset
            told = known.get((partition.topic, partition.topic_id, partition.partition), {})
            check = PartitionCheck(plan.location, partition, plan.request, told, compare)
            check.log_start_of = partial(self._log_start_of, plan.location.store, local)
            check.local_from = local_from
            yield from check.checks()
            tally.skipped += check.skipped

    def _log_start_of(
        self, store: ObjectStore, local: LocalLog | None, partition: TopicIdPartition, covered: Sequence[Interval]
    ) -> KnownLogStart | None:
        """Return the leader's log start offset, or else that of the local log; None if both are unknown."""
        from tiersnap.remote_storage.remote_log.log_head import KnownLogStart

        start = self._start_in_cluster(store, partition, covered)
        if start is not None:
            return KnownLogStart(start, is_current=True)
        if local is not None:
            return local.log_start(covered)
        return None

    def _start_in_cluster(
        self, store: ObjectStore, partition: TopicIdPartition, covered: Sequence[Interval]
    ) -> int | None:
        """Return the leader's log start offset; None if the cluster does not know it.

        If the topic was deleted and has no remote segments, return ENDLESS, because none of its offsets can be missing.
        """
        from tiersnap.remote_storage.cluster.log_starts import is_deleted, log_start_of
        from tiersnap.snapshot.log.leader_epochs import ENDLESS

        if self.cluster is None:
            return None
        start = log_start_of(self.cluster, partition)
        if start is None and not covered and is_deleted(self.cluster, store, partition):
            return ENDLESS
        return start


def _planned(
    view: RemoteView, tier: TierRequest, asked: CheckRequest, is_wanted: Callable[[TopicPartition], bool]
) -> CheckPlan:
    from tiersnap.remote_storage.verify.check_plan import plan_check

    sample = tier.sample or SegmentSample()
    return plan_check(view.location(), asked, is_wanted, number=sample.number, percent=sample.percent)


def verify_on_spark(
    output: Output,
    view: RemoteView,
    selection: Selection,
    tier: TierRequest,
    asked: CheckRequest,
    spark: SparkRequest,
) -> tuple[Iterator[RemoteCheck], CheckTally]:
    """Verify with a Spark job. Return the checks of segments that are not sound, and the counts of all segments."""
    from tiersnap.jobs.pipeline.checking import check_remote
    from tiersnap.jobs.pipeline.session import LONG_WORK
    from tiersnap.remote_storage.verify.check_task import CheckTask
    from tiersnap.snapshot.log.places import located

    plan = _planned(view, tier, asked, selection.takes)
    output.talk(f"{plan.sentence}, except segments with a valid result in the table remote_checks")
    task = CheckTask(plan.location, plan.request)
    session = partial(spark.session, java_options=LONG_WORK)
    found = check_remote(session, located(tier.warehouse or ""), plan, task, recheck=tier.recheck, stores=view.stores)
    # Brokers may have copied and deleted segments since the plan counted them.
    skipped = max(plan.partitions.total() - found.segments, 0)
    ranges = found.verdicts.total() - found.verdicts[RemoteVerdict.GONE] - found.segments
    tally = CheckTally(found.verdicts, found.bytes, skipped, ranges, [*plan.refusals])
    return iter(found.rows), tally


def _known(file: Path | None) -> Known:
    """Return the checks in the file of --resume, by partition and segment id. Skip lines about ranges of offsets.

    Raises:
        SourceNotFoundError, UsageError: see `read_lines`.
    """
    from tiersnap.snapshot.report.remote_checks import read_lines

    known: defaultdict[Key, dict[str, RemoteCheck]] = defaultdict(dict)
    if file is None:
        return known
    for each in read_lines(file, may_be_empty=True):
        if each.segment_id:
            known[each.topic, each.topic_id, each.partition][each.segment_id] = each
    return known


def tell_tier(output: Output, tally: CheckTally, depth: CheckDepth, place: Place) -> None:
    """Print the counts, and the next steps."""
    output.talk(tally.sentence(depth), *_next_steps(tally, place))
    if (left := tally.verdicts[RemoteVerdict.NOT_COMPARED]) and depth is not CheckDepth.FULL:
        are = count_of(left, "snapshot is", "snapshots are")
        output.talk(f"{are} not compared with a log; to compare: {again('--depth', 'full', without={'depth'})}")


def _next_steps(tally: CheckTally, place: Place) -> Iterator[str]:
    """Yield a message for each next step, with the verdicts that the step clears."""
    from tiersnap.snapshot.gate.next_steps import MEND
    from tiersnap.snapshot.gate.step_template import Hole

    wrong: dict[str, list[RemoteVerdict]] = {}
    for verdict in (RemoteVerdict.CORRUPT, RemoteVerdict.MISSING, RemoteVerdict.SUSPECT):
        if not tally.verdicts[verdict]:
            continue
        step = place.clears(verdict)
        if verdict is RemoteVerdict.SUSPECT and place.knows(Hole.LOG_DIRS):
            step = place.text(MEND)  # the log in LOGDIR proves that the snapshot is wrong
        wrong.setdefault(step, []).append(verdict)
    for step, verdicts in wrong.items():
        yield f"next for {', '.join(verdicts)}: {step}"


def is_of_tier(tier: TierRequest, situation: Situation, log_dirs: tuple[str, ...], against: Path | None) -> bool:
    """Return whether the command verifies only remote segments, without the files of LOGDIR.

    Raises:
        UsageError: the log directories or the remote location are unknown, or the options exclude each other.
    """
    from tiersnap.jobs.situation.situation import COMMAND_LINE

    if tier.depth is None and log_dirs:
        tier.refuse_beside_files()
        return False
    if against is not None:
        why = "--against is only for the files of LOGDIR, but only remote storage is verified here"
        raise UsageError(why, hint="remove --against, or remove --depth" if log_dirs else "give LOGDIR")
    if tier.depth is None and situation.remote.value is None:
        situation.log_dirs.require("log directories")
    situation.remote.require("remote location")
    if tier.warehouse is not None:
        tier.refuse_beside_spark(has_log_dirs=bool(log_dirs), names_cluster=situation.cluster.source == COMMAND_LINE)
    return True
