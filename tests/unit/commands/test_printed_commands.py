"""Each command that a command prints can be typed, and carries the options by which its remote location is reached."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import click
import pytest

from tests.protocol.situations import SITUATIONS as REMOTE_SITUATIONS
from tests.protocol.situations import Place as RemotePlace
from tests.protocol.situations import Word, found
from tests.reference.command import tiersnap
from tests.reference.command_lines import context_of, parse
from tests.reference.situations import NOW, SITUATIONS, CannotBeLaidOutError
from tests.unit.test_exit_codes_remote import COMMANDS as REMOTE_COMMANDS
from tiersnap.jobs.cli.next_command import given_options
from tiersnap.jobs.cli.settings import commands_of, long_options
from tiersnap.jobs.main import cli, run
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.gate.exit_code import OtherProblem
from tiersnap.snapshot.gate.kafka_tools import abort_transaction, set_topic_config
from tiersnap.snapshot.gate.printed_steps import Place
from tiersnap.snapshot.gate.remote_check import RemoteVerdict
from tiersnap.snapshot.gate.step_template import Hole
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.findings import FindingKind

pytestmark = pytest.mark.unit

LOCATION = ("--endpoint-url", "http://minio:9000", "--region", "eu-1", "--path-style", "--checksums", "compat")
LAYOUT = ("--layout", "local-tiered-storage")
SERVER = ("--bootstrap-server", "model:9092")
# The location does not answer, or brokers do not read it: no command is printed with it.
SILENT = ("store away", "store refuses", "empty", "no such place")
WITHOUT_LAYOUT = ("install", "maintain")
COMMANDS = ("doctor", "scan", "verify", "verify --depth full", "repair", "simulate", "tier")
# A command ends where its line, its note or the sentence around it goes on.
NAMES = "|".join(sorted({name.split()[0] for name in commands_of(click.Context(cli), cli)}))
COMMAND = re.compile(
    rf"\btiersnap (?:{NAMES}) .*?(?= {{3}}|,? or |, and |; |: | shows| names| makes| states| on its host| > FILE|$)",
    re.MULTILINE,
)
VALUES = {"FILE": "ids.txt", "TOPIC-PARTITION=OFFSET": "orders-0=7"}
PLACE = Place(
    ("tier", Hole.LOG_DIRS, "--remote", Hole.REMOTE),
    {
        Hole.LOG_DIRS: ("/a b",),
        Hole.SOURCES: ("--source", "/a b"),
        Hole.REMOTE: ("s3://b", *LAYOUT, *LOCATION),
        Hole.CLUSTER: SERVER,
        Hole.SEGMENT_FILE: ("/a b/orders-0/0.log",),
    },
)


def printed(text: str) -> Iterator[list[str]]:
    """The words behind `tiersnap` of each command with options in a text; without any it may be prose."""
    for command in (each for each in COMMAND.findall(text) if " --" in each):
        yield [VALUES.get(word, re.sub("=OFFSET$", "=7", word)) for word in shlex.split(command)[1:]]


def texts(value: object) -> Iterator[str]:
    """The strings of a document."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in values:
        yield from texts(each)
    if isinstance(value, str):
        yield value


def assert_typed(text: str, remote: str, location: tuple[str, ...]) -> int:
    """Parse each command; if it names the remote location, it reaches it. Return the number of those."""
    count = 0
    for words in printed(text):
        values = parse(words)
        if "--remote" in words and values["remote"] == remote:
            count += 1
            wanted = LOCATION if words[0] in WITHOUT_LAYOUT else location
            assert set(wanted) <= set(words), words
        if "--bootstrap-server" in words:
            assert words.count("--bootstrap-server") == 1, words
    return count


@pytest.mark.parametrize("problem", [*Verdict, *FindingKind, *RemoteVerdict, *OtherProblem], ids=repr)
def test_steps_of_each_problem_are_commands_that_reach_the_location(problem: StrEnum) -> None:
    named = [step.command for step in PLACE.steps(problem) if "--remote" in step.command]
    assert sum(assert_typed(each.line, "s3://b", (*LAYOUT, *LOCATION)) for each in PLACE.steps(problem)) == len(named)


@pytest.mark.parametrize("name", SITUATIONS)
def test_commands_on_a_host_print_commands_that_reach_the_location(name: str, tmp_path: Path) -> None:
    try:
        with SITUATIONS[name](tmp_path) as site:
            for command in COMMANDS:
                ran = tiersnap(*command.split(), *site.log_dirs, "--remote", site.remote, *LAYOUT, *LOCATION, *NOW)
                for text in (ran.err, *texts(json.loads(ran.out))):
                    assert_typed(text, str(site.remote), (*LAYOUT, *LOCATION))
    except CannotBeLaidOutError as error:
        pytest.skip(str(error))


def test_tools_of_kafka_name_the_cluster() -> None:
    kafka = Place(values={Hole.SERVER: ("broker-1:9092",)})
    abort = kafka.text(abort_transaction("a b", 0, "--start-offset", "7"))
    server = "--bootstrap-server broker-1:9092"
    assert abort == f"kafka-transactions.sh {server} abort --topic 'a b' --partition 0 --start-offset 7"
    assert kafka.render(set_topic_config("a b", "retention.ms", "-1")).is_complete
    assert not Place().render(set_topic_config("a b", "retention.ms", "-1")).is_complete


def said(place: RemotePlace, words: list[Word]) -> Iterator[str]:
    """What a command says over the store and the cluster of a place."""
    out, err = io.StringIO(), io.StringIO()

    def command(_: object) -> ExitCode:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return ExitCode(run(["--output", "json", *map(str, words)]))

    place.world.run({"c": command})
    yield err.getvalue()
    yield from texts(json.loads(out.getvalue()))


@pytest.mark.parametrize("name", REMOTE_SITUATIONS)
def test_commands_over_remote_storage_print_commands_that_reach_the_location(name: str, tmp_path: Path) -> None:
    count = 0
    with found(name, tmp_path) as place:
        for command, words_of in REMOTE_COMMANDS.items():
            if not command.endswith("-a"):
                for text in said(place, [*words_of(place), *LOCATION]):
                    count += assert_typed(text, place.remote, LOCATION)
    assert count or name in SILENT


WORDS_OF_TYPE = {
    "file": ["/a b/file"],
    "directory": ["/tmp"],
    "text": ["a b"],
    "servers": ["a:1,b:2"],
    "duration": ["none", "36h", "90s", "1500ms"],
    "time": ["2026-11-21T12:45:00.123Z", "boundary"],
    "log-start": ["orders-0=7"],
    "url": ["http://a/b"],
    "regex": ["a|b-.*"],
    "topic-partition": ["or-ders-0"],
    "sample": ["7", "5%"],
    "integer range": ["3"],
    "integer": ["3"],
    "size": ["5MiB"],
    "release": ["3.9", "0.11", "4.1.1"],
}


def test_an_option_is_printed_again_as_words_of_the_same_value() -> None:
    """`--expiration none` was lost, and a release was printed as an object."""
    count, others = 0, []
    for name, command in commands_of(click.Context(cli), cli).items():
        for option, each in long_options(command).items():
            if each.is_flag or not each.expose_value:
                continue
            required = [f"--{other}=x" for other, of in long_options(command).items() if of.required and of is not each]
            for word in getattr(each.type, "choices", None) or WORDS_OF_TYPE[each.type.name]:
                with contextlib.suppress(click.ClickException):
                    given = context_of([*name.split(), *required, f"--{option}", word])
                    count += 1
                    words = [*name.split(), *required, *given_options(given).get(option, ())]
                    if not _takes(words, str(each.name), given.params[str(each.name)]):
                        others.append((*words, word))
    assert not others
    assert count > 200


def _takes(words: list[str], name: str, value: object) -> bool:
    """Return whether the words give a parameter the value."""
    try:
        return context_of(words).params[name] == value
    except click.ClickException:
        return False
