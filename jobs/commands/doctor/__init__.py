"""`tiersnap doctor`: print the state of a broker host on one screen, and the next commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.escaped_text import shown
from tiersnap.jobs.cli.next_command import situation_place
from tiersnap.jobs.cli.option_types import clock, once
from tiersnap.jobs.cli.options import (
    CopyTaskSource,
    LogStarts,
    broker_expiry_options,
    hung_after_option,
    log_start_option,
)
from tiersnap.jobs.cli.output import Format, Output, terminal_width
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.remote_checks import VerifiedPartition, remote_checks_option, verified_lines, verified_partitions
from tiersnap.jobs.cli.sentences import tell_failures
from tiersnap.jobs.cli.situation_options import situation_options
from tiersnap.jobs.cli.table import folded
from tiersnap.jobs.commands.doctor.cluster import (
    Compared,
    CopiedTwice,
    CopyProblems,
    HungRemoteCopy,
    RemoteRecords,
    as_records,
    compare_if_answered,
    find_copy_problems,
    lines_of,
    problems_of_cluster,
    records_here,
    steps_of_cluster,
)
from tiersnap.jobs.commands.doctor.copies import CopyFindings, FailingCopyTask, check_copies, steps_once
from tiersnap.jobs.commands.doctor.host_lines import lines_of_host, lines_of_replicas
from tiersnap.jobs.commands.doctor.location import JudgedLocation, judge_location, probe_location, view_to_ask
from tiersnap.jobs.commands.doctor.log_dir import ExaminedLogDir
from tiersnap.jobs.commands.doctor.unused import lines_of_unused, unused_topics
from tiersnap.jobs.commands.simulate import LostProducersOfReplica
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.jobs.situation.situation import COMMAND_LINE, Known, Situation
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.remote_storage.cluster.unused_topic import UnusedTopic
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer, ProbeVerdict
from tiersnap.snapshot.gate.printed_steps import Step
from tiersnap.snapshot.host.waiting import WaitingPartition
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.members import members

if TYPE_CHECKING:
    from tiersnap.snapshot.gate.exit_code import Problem
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.gate.step_template import NextStep
    from tiersnap.snapshot.host.summary import Host
    from tiersnap.snapshot.replay.expiry import BrokerExpiry

_WIDEST = 200  # characters of a sentence per line if stdout is no terminal; a command is never wrapped


@dataclass(frozen=True, slots=True)
class DoctorResult:
    """The state of the host, and the next steps.

    `remote` is empty without --remote. `hung`, `twice` and `copying` are empty if no cluster is known. `records` is
    null if the cluster or the remote location is unknown. `location` is null if neither a cluster nor a running broker
    gives evidence.
    """

    log_dirs: list[ExaminedLogDir]
    version: str
    location: JudgedLocation | None
    remote: list[ProbeAnswer]
    records: RemoteRecords | None
    findings: list[Finding]
    verified: Annotated[list[VerifiedPartition], Meta(description="results in the file that --remote-checks names")]
    hung: list[HungRemoteCopy]
    twice: list[CopiedTwice]
    copying: CopyFindings
    unused: Annotated[
        list[UnusedTopic],
        Meta(description="topic folders in the remote location whose topic ids the cluster does not have"),
    ]
    lost_producers: Annotated[
        list[LostProducersOfReplica], Meta(description="replicas that lost active producers; needs --remote")
    ]
    waiting: Annotated[list[WaitingPartition], Meta(description="partitions with blocked segments, the worst first")]
    next: list[Step]
    check: Annotated[list[Step], Meta(description="commands that exit with 0 once the next steps are done")]


@command(result=DoctorResult)
@situation_options(
    "Remote location: s3://bucket/prefix, or a directory. doctor looks for segments in it, and probes the store.  "
    "[default: the location of this host's broker, which is not probed]",
    "Broker of the cluster. doctor asks it for hung uploads and lost segments.  [default: the broker of this host]",
    once,
    prints_facts=False,
)
@hung_after_option
@broker_expiry_options
@log_start_option
@remote_checks_option
@metrics_options
def doctor(
    output: Output,
    situation: Situation,
    hung_after: int | None,
    broker_expiry: BrokerExpiry,
    log_starts: LogStarts,
    checks_file: Path | None,
    sinks: Sinks,
) -> int:
    """Check the broker, disks, segments, remote storage and cluster of a broker host, and print the next commands.

    tiersnap doctor /var/lib/kafka/data
    tiersnap doctor /data-1/kafka,/data-2/kafka --remote s3://bucket/tiers
    tiersnap doctor /var/lib/kafka/data --bootstrap-server broker-1:9092

    On the host of a running broker, `sudo tiersnap doctor` needs no argument. The command reads log.dirs, a listener
    and the remote location from the broker's server.properties. For a listener with TLS or SASL, give
    --bootstrap-server and --command-config.

    Give all entries of log.dirs as LOGDIR: separate them with blanks or commas, or use a glob. The command reads only
    names and small files, so it takes seconds even for large disks. `tiersnap scan` reads the segments.

    The exit code is 5 for a damaged file, 6 for a file without read permission, 4 for blocked segments, otherwise 0.

    --remote probes the store: conditional writes, checksums, Object Lock, lifecycle rules and clock. The probe writes
    only objects with the prefix claims/probe-, and deletes them. If the store is not safe for tiersnap, the exit code
    is 2.

    With a remote location the command lists the remote segments of LOGDIR's partitions. The records of the cluster, or
    of __remote_log_metadata replicas in LOGDIR, show which of them are tiered. The command also reports replicas that
    lost active producers, for example after a broker rebuilt a replica from remote storage. It reads their segments,
    and prints the errors that the producers would get if such a replica became leader (exit code 4).

    The command compares the remote location with the location that brokers read. If brokers read another location, the
    command prints it, checks nothing else in --remote, and exits with 4 (5 if --remote lacks published segments). The
    command also reports unused topics: topics in the remote location with an id that the cluster lacks.

    With a remote location and a cluster the command reports published segments with missing objects (exit code 5). The
    next steps restore the objects.

    With a cluster the command reports the obstacles to copying (exit code 4): hung copies (--hung-after), copy tasks
    that fail again and again (watched for up to three task intervals), and topics that a killed run left paused. On
    the leader's host it also reports lost leader epochs, and segments above a last stable offset that has not moved for
    an hour.
    """
    from tiersnap.snapshot.gate.exit_code import exit_code_of
    from tiersnap.snapshot.metrics.of_run import of_doctor

    if situation.is_empty or situation.broker.value is not None:
        situation.log_dirs.require("log directories")
    verified = verified_partitions(checks_file)
    broker = situation
    situation, unanswered = situation.answering()
    compared, situation, silent = compare_if_answered(situation, output.talk)
    unanswered += silent
    log_dirs, cluster = situation.log_dirs.value or (), situation.cluster.value
    records = verdict = None
    if compared is not None:
        records, verdict = compared.records, compared.location
    location = judge_location(situation, verdict)
    copies = find_copy_problems(cluster, log_dirs, broker_expiry.now, hung_after, records)
    view = view_to_ask(situation, compared, location)
    copying, unread = check_copies(cluster, log_dirs, view, records, broker_expiry.now, output.talk)
    unanswered += unread
    probes = probe_location(view) if situation.remote.source == COMMAND_LINE else []
    host = _look(output, situation, log_starts, view, broker_expiry, compared)
    unused = unused_topics(cluster, view)
    answers = _Answers(host, probes, compared, copies, verified, location, copying, unused)
    known = Known(view if view.remote is not None else None, situation.remote.source)
    place = situation_place([each.uri for each in host.log_dirs], replace(broker, remote=known))
    advice = _advice(host, place, _steps_of_cluster(answers, place))
    errors = (*unanswered, *host.errors)
    if output.format is Format.TABLE:
        sections = {"facts": list(situation.lines()), **_sections(answers)}
        if view.remote is not None:
            sections["verified"] = verified_lines(verified, place)
        _print_screen(output, sections, advice)
        tell_failures(output, errors)
    else:
        output.document(_result(answers, advice), errors=errors)
    problems: list[Problem] = list(answers.problems())
    if not answers.is_elsewhere:  # if brokers read another location, the exit code is 4, even if a server is silent
        problems += unanswered
    code = exit_code_of(problems)
    hung_count = None
    if cluster is not None and hung_after is not None:
        hung_count = len(copies.hung)
    sinks.send(lambda: of_doctor(code, clock(), hung_count))
    return code


@dataclass(frozen=True, slots=True)
class _Answers:
    """The results of the checks of `doctor`. A check that did not run has an empty result or None."""

    host: Host
    probes: list[ProbeAnswer]
    compared: Compared | None
    copies: CopyProblems
    verified: list[VerifiedPartition]
    location: JudgedLocation | None
    copying: CopyFindings
    unused: list[UnusedTopic]

    @property
    def is_elsewhere(self) -> bool:
        """Return whether brokers read another location."""
        return self.location is not None and self.location.is_contradicted

    def problems(self) -> Iterator[Problem]:
        """Yield the problems from which the exit code follows."""
        from tiersnap.remote_storage.stores.probe import problems_of

        yield from self.host.problems()
        yield from problems_of_cluster(self.compared, self.copies, self.location)
        yield from self.copying.problems()
        yield from problems_of(self.probes)


def _steps_of_cluster(answers: _Answers, place: Place) -> list[Step]:
    from tiersnap.snapshot.gate.next_steps import BROKERS_LOCATION
    from tiersnap.snapshot.gate.step_template import Hole

    host, copies, copying = answers.host, answers.copies, answers.copying
    of_hung = steps_of_cluster(place, answers.compared, copies, _freeing(host, copies.hung))
    steps = [*of_hung, *map(place.render, copying.steps(_freeing(host, copying.failing)))]
    if answers.is_elsewhere and place.knows(Hole.REMOTE):
        steps.insert(0, place.render(BROKERS_LOCATION))
    return steps


def _look(
    output: Output,
    situation: Situation,
    log_starts: LogStarts,
    view: RemoteView,
    broker_expiry: BrokerExpiry,
    compared: Compared | None,
) -> Host:
    from tiersnap.remote_storage.cluster.log_starts import located
    from tiersnap.snapshot.host.summary import Host
    from tiersnap.snapshot.log.log_start import with_stated
    from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of

    if not situation.log_dirs.value:
        return Host(())
    opened = with_stated(open_log_dirs(situation.log_dirs.value), log_starts)
    cluster = situation.cluster.value
    ask_log_start = CopyTaskSource(cluster).ask_log_start
    inventory = view.inventory(broker_expiry, records_here(cluster, compared, opened), ask_log_start)
    progress = Progress(output, "listing", count(opened, Selection()))
    partitions = located(cluster, progress.watch(selected_of(opened, Selection())))
    found = Host.of(opened, partitions, inventory, now=broker_expiry.now)
    if inventory is None or view.remote is None:
        return found
    return replace(found, asked_remote=True, errors=tuple(inventory.errors))


@dataclass(frozen=True, slots=True)
class _Advice:
    """The next steps, and the commands that check their result."""

    next: list[Step]
    check: list[Step]

    def script(self, width: int) -> Iterator[str]:
        """Yield lines that can be pasted into a shell: comments, wrapped at `width` columns, and unwrapped commands."""
        for heading, steps in (("Next:", self.next), ("To check the result, run:", self.check)):
            if not steps:
                continue
            yield from ("", f"# {heading}")
            for each in steps:
                for comment in each.comments:
                    yield from folded(comment, width, "# ", "# ")
                if each.command:
                    yield each.command


def _freeing(host: Host, stuck: Iterable[HungRemoteCopy | FailingCopyTask]) -> tuple[NextStep, ...]:
    """Return the step that frees copy tasks: `unblock`, or a restart of the leaders.

    Return no step if the steps that repair missing snapshots restart these brokers anyway.
    """
    from tiersnap.snapshot.gate.next_steps import RESTART_LEADER, UNBLOCK

    if host.can_pause_copying:
        return (UNBLOCK,)
    waiting = {each.broker for each in stuck}
    if host.missing:
        waiting -= {node for node, _, _ in host.brokers}
    return (RESTART_LEADER,) if waiting else ()


def _advice(host: Host, place: Place, of_cluster: Sequence[Step]) -> _Advice:
    from tiersnap.snapshot.host.doctor_steps import checks, doctor_steps

    if not host.log_dirs:
        return _Advice(steps_once(of_cluster), [])
    before = frozenset(each.command for each in of_cluster)
    steps = steps_once([*of_cluster, *doctor_steps(host, place, before)])
    return _Advice(steps, list(checks(host, place)))


def _result(answers: _Answers, advice: _Advice) -> DoctorResult:
    host = answers.host
    return DoctorResult(
        log_dirs=[ExaminedLogDir.of(host, each) for each in host.log_dirs],
        version=host.version() if host.log_dirs else "",
        location=answers.location,
        remote=answers.probes,
        records=None if answers.compared is None else as_records(answers.compared),
        findings=list(host.findings),
        verified=answers.verified,
        hung=list(answers.copies.hung),
        twice=list(answers.copies.twice),
        copying=answers.copying,
        unused=answers.unused,
        lost_producers=[
            LostProducersOfReplica(log_dir, name, **members(found)) for log_dir, name, found in host.lost_producers
        ],
        waiting=host.waiting(),
        next=advice.next,
        check=advice.check,
    )


def _print_screen(output: Output, sections: Mapping[str, Iterable[str]], advice: _Advice) -> None:
    """Print the sections and the next steps. The name of each section is in the left column."""
    width = terminal_width() or _WIDEST
    for name, lines in sections.items():
        left = name
        for line in lines:
            output.line(*folded(shown(line), width, f"{left:<9}", " " * 9))
            left = ""
    output.line(*map(shown, advice.script(width)))


def _sections(answers: _Answers) -> dict[str, list[str]]:
    """Return the lines of each section, in the order of the screen. A section may be empty."""
    host, location, compared = answers.host, answers.location, answers.compared
    blocking = list(answers.copying.blocking())
    of_remote: dict[str, list[str]] = {"location": [], "remote": list(_answer_lines(answers.probes)), "records": []}
    if location is not None:
        of_remote["location"] += location.lines()
    if compared is not None:
        of_remote["records"] += lines_of(compared)
    of_remote["copies"] = [*answers.copies.said, *answers.copying.others()]
    of_remote["unused"] = list(lines_of_unused(answers.unused))
    if not host.log_dirs:
        return {"blocked": blocking, **of_remote}
    return {**lines_of_host(host, blocking), **of_remote, "replicas": list(lines_of_replicas(host))}


def _answer_lines(answers: Sequence[ProbeAnswer]) -> Iterator[str]:
    """Yield a line for each failed or doubtful probe, and one line with the names of all good probes."""
    good = []
    for each in answers:
        if each.verdict is ProbeVerdict.OK:
            good.append(each.probe)
            continue
        line = f"{each.probe}: {each.verdict}, {each.message}"
        if each.next_step:
            line += f"; {each.next_step}"
        yield line
    if good:
        yield f"OK: {', '.join(good)}"
