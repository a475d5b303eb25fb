"""`tiersnap doctor`: the state of a broker host on one screen, and the commands to run next."""

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
from tiersnap.jobs.cli.options import LogStarts, ToldBy, broker_expiry_options, hung_after_option, log_start_option
from tiersnap.jobs.cli.output import Format, Output, terminal_width
from tiersnap.jobs.cli.progress import Progress
from tiersnap.jobs.cli.remote_checks import VerifiedPartition, remote_checks_option, verified_lines, verified_partitions
from tiersnap.jobs.cli.sentences import tell_failures
from tiersnap.jobs.cli.situation_options import situation_options
from tiersnap.jobs.cli.table import folded
from tiersnap.jobs.commands.doctor.cluster import (
    Compared,
    CopiedTwice,
    HungRemoteCopy,
    RemoteRecords,
    ToldCopies,
    as_records,
    compare_if_answered,
    lines_of,
    problems_of_cluster,
    records_here,
    steps_of_cluster,
    told_copies,
)
from tiersnap.jobs.commands.doctor.copies import CopyFindings, FailingCopyTask, check_copies, steps_once
from tiersnap.jobs.commands.doctor.host_lines import lines_of_host, lines_of_replicas
from tiersnap.jobs.commands.doctor.location import JudgedLocation, judge_location
from tiersnap.jobs.commands.doctor.log_dir import ExaminedLogDir
from tiersnap.jobs.commands.doctor.unused import lines_of_unused, unused_topics
from tiersnap.jobs.commands.simulate import ForgottenProducers
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.jobs.situation.situation import COMMAND_LINE, NO_LOCATION, Known, Situation
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.remote_storage.cluster.unused_topic import UnusedTopic
from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer, ProbeVerdict
from tiersnap.snapshot.gate.printed_steps import Step
from tiersnap.snapshot.host.waiting import WaitingPartition
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.members import members

if TYPE_CHECKING:
    from tiersnap.snapshot.gate.exit_code import Problem
    from tiersnap.snapshot.gate.next_step import NextStep
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.host.summary import Host
    from tiersnap.snapshot.replay.expiry import BrokerExpiry

_WIDEST = 200  # columns of a sentence in a pipe; a command is never folded


@dataclass(frozen=True, slots=True)
class DoctorResult:
    """The state of the host, and the next steps.

    `remote` is empty without --remote, `hung`, `twice` and `copying` without a cluster; `records` is null without both.
    `location` is null if neither a cluster nor a running broker of LOGDIR names it.
    """

    log_dirs: list[ExaminedLogDir]
    version: str
    location: JudgedLocation | None
    remote: list[ProbeAnswer]
    records: RemoteRecords | None
    findings: list[Finding]
    verified: Annotated[list[VerifiedPartition], Meta(description="by --remote-checks")]
    hung: list[HungRemoteCopy]
    twice: list[CopiedTwice]
    copying: CopyFindings
    unused: Annotated[list[UnusedTopic], Meta(description="topics of the location that the cluster does not have")]
    forgotten: Annotated[list[ForgottenProducers], Meta(description="with --remote")]
    waiting: Annotated[list[WaitingPartition], Meta(description="partitions with blocked segments, the worst first")]
    next: list[Step]
    check: Annotated[list[Step], Meta(description="commands that end with 0 once the next steps are done")]


@command(result=DoctorResult)
@situation_options(
    "Remote location: s3://bucket/prefix, or a directory. Probe its store, too.  [default: that of the broker]",
    "A broker of the cluster: name copies that hang, and find lost segments.  [default: the broker of this host]",
    once,
    is_told=False,
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
    """Say on one screen which broker this is, whether it runs, how full its disks are, what blocks, and what to type.

    tiersnap doctor /var/lib/kafka/data
    tiersnap doctor /data-1/kafka,/data-2/kafka --remote s3://bucket/tiers
    tiersnap doctor /var/lib/kafka/data --bootstrap-server broker-1:9092

    Beside a running broker `sudo tiersnap doctor` needs no argument: the broker's process names its
    server.properties, which has log.dirs, a listener and the remote location. A listener with TLS or SASL needs
    --bootstrap-server and --command-config.
    LOGDIR are all entries of log.dirs, with blanks or commas between them, or as a glob. Only names and small files are
    read, so it takes seconds whatever the size of the disks; `scan` reads the segments. Exits 5 when something is
    damaged, 6 when something may not be read, 4 when segments wait, 0 otherwise.

    --remote asks a store for what tiersnap relies on: conditional writes, checksums, Object Lock, lifecycle rules, its
    clock. It writes under claims/probe- alone and removes that. Exits 2 when the store is not to be trusted as it is.
    Segments of LOGDIR that it holds wait for no file here; the records of the cluster, or of the replicas of
    __remote_log_metadata in LOGDIR, tell which of them are tiered. The command also names replicas of LOGDIR that have
    forgotten producers, as brokers leave them after a rebuild from remote storage, and says what producers would meet
    if such a replica led now; it reads the segments of such a replica. Exits 4 if there is one.

    --remote is compared with what the running broker of LOGDIR or the cluster reads. If they read another location, the
    command names it, asks nothing there, and exits with 4, or with 5 if segments are missing. Topics of the location
    whose ids the cluster does not have are named as unused.

    --remote with --bootstrap-server names segments that brokers know and whose objects are not there, and the command
    that puts them back. Exits 5 if there is one.

    --bootstrap-server names what keeps brokers from copying, and exits 4 then: copies that hang (--hung-after), copy
    tasks that fail again and again (watched for up to three task intervals), topics that a killed run left paused, and
    on the leader's host lost leader epochs, and segments above a last stable offset that has stood for an hour.
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
    records = None if compared is None else compared.records
    location = judge_location(situation, None if compared is None else compared.location)
    copies = told_copies(cluster, log_dirs, broker_expiry.now, hung_after, records)
    view = _view_to_ask(situation, compared, location)
    copying = check_copies(cluster, log_dirs, view, records, broker_expiry.now, output.talk)
    probes = _probe(view) if situation.remote.source == COMMAND_LINE else []
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
    away = () if answers.is_elsewhere else unanswered  # a contradiction always exits with 4, even without an answer
    code = exit_code_of([*answers.problems(), *away])
    was_asked = cluster is not None and hung_after is not None
    sinks.send(lambda: of_doctor(code, clock(), len(copies.hung) if was_asked else None))
    return code


def _view_to_ask(situation: Situation, compared: Compared | None, location: JudgedLocation | None) -> RemoteView:
    """Return the remote location with the brokers' layout; without its URI if brokers read another one."""
    view = situation.remote.value or NO_LOCATION
    if location is not None and location.is_contradicted:
        view = replace(view, remote=None)
    return view if compared is None else replace(view, layout=compared.layout)


def _probe(view: RemoteView) -> list[ProbeAnswer]:
    from tiersnap.remote_storage.stores.open_store import open_existing_store
    from tiersnap.remote_storage.stores.probe import probe_store

    return [] if view.remote is None else list(probe_store(open_existing_store(view.remote, view.stores)))


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers to the questions of `doctor`; empty or None if a question was not asked."""

    host: Host
    probes: list[ProbeAnswer]
    compared: Compared | None
    copies: ToldCopies
    verified: list[VerifiedPartition]
    location: JudgedLocation | None
    copying: CopyFindings
    unused: list[UnusedTopic]

    @property
    def is_elsewhere(self) -> bool:
        """Return whether brokers read another location."""
        return self.location is not None and self.location.is_contradicted

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that decide the exit code."""
        from tiersnap.remote_storage.stores.probe import problems_of

        yield from self.host.problems()
        yield from problems_of_cluster(self.compared, self.copies, self.location)
        yield from self.copying.problems()
        yield from problems_of(self.probes)


def _steps_of_cluster(answers: _Answers, place: Place) -> list[Step]:
    from tiersnap.snapshot.gate.next_step import Hole
    from tiersnap.snapshot.gate.steps_by_problem import BROKERS_LOCATION

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
    ask_log_start = ToldBy(cluster).ask_log_start
    inventory = view.inventory(broker_expiry, records_here(cluster, compared, opened), ask_log_start)
    progress = Progress(output, "listing", count(opened, Selection()))
    partitions = located(cluster, progress.watch(selected_of(opened, Selection())))
    found = Host.of(opened, partitions, inventory, now=broker_expiry.now)
    if inventory is None or view.remote is None:
        return found
    return replace(found, asked_remote=True, errors=tuple(inventory.errors))


@dataclass(frozen=True, slots=True)
class _Advice:
    """The next steps, and the commands that check the result."""

    next: list[Step]
    check: list[Step]

    def script(self, width: int) -> Iterator[str]:
        """Yield lines that can be pasted into a shell: comments, folded to `width`, and a line for each command."""
        for heading, steps in (("Next:", self.next), ("To check the result:", self.check)):
            if not steps:
                continue
            yield from ("", f"# {heading}")
            for each in steps:
                for comment in each.comments:
                    yield from folded(comment, width, "# ", "# ")
                if each.command:
                    yield each.command


def _freeing(host: Host, stuck: Iterable[HungRemoteCopy | FailingCopyTask]) -> tuple[NextStep, ...]:
    """Return the steps that free copy tasks; none if the repair of missing snapshots restarts their brokers anyway."""
    from tiersnap.snapshot.gate.steps_by_problem import RESTART_LEADER, UNBLOCK

    if host.can_pause_copying:
        return (UNBLOCK,)
    restarted = {node for node, _, _ in host.brokers} if host.missing else set()
    if any(each.broker not in restarted for each in stuck):
        return (RESTART_LEADER,)
    return ()


def _advice(host: Host, place: Place, of_cluster: Sequence[Step]) -> _Advice:
    from tiersnap.snapshot.host.next_steps import checks, next_steps

    if not host.log_dirs:
        return _Advice(steps_once(of_cluster), [])
    before = frozenset(each.command for each in of_cluster)
    steps = steps_once([*of_cluster, *next_steps(host, place, before)])
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
        forgotten=[ForgottenProducers(log_dir, name, **members(found)) for log_dir, name, found in host.forgotten],
        waiting=host.waiting(),
        next=advice.next,
        check=advice.check,
    )


def _print_screen(output: Output, sections: Mapping[str, Iterable[str]], advice: _Advice) -> None:
    """Print the sections, each with its name at the left, and the next steps."""
    width = terminal_width() or _WIDEST
    for name, lines in sections.items():
        for number, line in enumerate(lines):
            output.line(*folded(shown(line), width, f"{'' if number else name:<9}", " " * 9))
    output.line(*map(shown, advice.script(width)))


def _sections(answers: _Answers) -> dict[str, list[str]]:
    """Return the lines by section, in the order of the screen; a section may be empty."""
    host, location, compared = answers.host, answers.location, answers.compared
    blocking = list(answers.copying.blocking())
    of_remote = {
        "location": [] if location is None else list(location.lines()),
        "remote": list(_answer_lines(answers.probes)),
        "records": [] if compared is None else list(lines_of(compared)),
        "copies": [*answers.copies.said, *answers.copying.others()],
        "unused": list(lines_of_unused(answers.unused)),
    }
    if not host.log_dirs:
        return {"blocked": blocking, **of_remote}
    return {**lines_of_host(host, blocking), **of_remote, "replicas": list(lines_of_replicas(host))}


def _answer_lines(answers: Sequence[ProbeAnswer]) -> Iterator[str]:
    """Yield a line for each answer that is not OK, and one for all that are."""
    good = []
    for each in answers:
        if each.verdict is ProbeVerdict.OK:
            good.append(each.probe)
            continue
        step = f"; {each.next_step}" if each.next_step else ""
        yield f"{each.probe}: {each.verdict}, {each.message}{step}"
    if good:
        yield f"OK: {', '.join(good)}"
