"""What the command says: errors as objects, names as they are, no markup, no secret."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import write_small_log
from tiersnap.jobs.cli.escaped_text import in_words, shown
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.commands import COMMANDS, SUBCOMMANDS, words_of_command
from tiersnap.jobs.main import missing_extra
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.masking import masked
from tiersnap.snapshot.units import escaped

pytestmark = pytest.mark.unit

SECRET = "wJalrXUtnFEMI"


@dataclass(frozen=True)
class Row:
    COLUMNS: ClassVar = ("name", "of")
    name: str
    of: object


@pytest.mark.parametrize(
    "words",
    [
        ("collect",),
        ("scan", "x", "--no-such-option"),
        ("scan", "x", "--topic", "("),
        ("no-such-command",),
        ("repair", "x", "--expiration", "soon"),
        ("scan", "x", "--now", "0001-01-01T00:00:00+14:00"),
        ("scan", "x", "--now", "9999-12-31T23:59:59-14:00"),
    ],
)
@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_a_usage_error_is_an_object_on_stdout_as_any_other_error(words: tuple[str, ...], output: str) -> None:
    ran = tiersnap(*words, output=output)
    assert ran.exit_code == 2
    said = json.loads(ran.out)
    assert said["result"] is None
    assert [error["type"] for error in said["errors"]] == ["UsageError"]
    assert said["errors"][0]["message"] in " ".join(ran.err.split())
    assert "--help" in said["errors"][0]["hint"]
    assert len(ran.out.splitlines()) == 1 or output == "json"


PLACES = {
    "repair": ("LOGDIR",),
    "tier": ("LOGDIR", "--remote", "REMOTE"),
    "run": ("--source", "LOGDIR", "--remote", "REMOTE", "--warehouse", "WAREHOUSE", "--print-submit"),
    "mend": ("--bootstrap-server", "localhost:9092", "--remote", "REMOTE"),
    "simulate": ("LOGDIR",),
}


@pytest.mark.parametrize("name", PLACES)
def test_an_expiration_below_the_brokers_is_refused(tmp_path: Path, name: str) -> None:
    """What is written then lacks producers that brokers keep; `run` and `mend` wrote it."""
    (tmp_path / "REMOTE").mkdir()
    write_small_log(tmp_path / "LOGDIR")
    words = [str(tmp_path / word) if word.isupper() else word for word in PLACES[name]]
    ran = tiersnap(name, *words, "--expiration", "1h")
    assert_said(ran, 2, "--expiration 1h is below the broker's producer.id.expiration.ms, 1d")


@pytest.mark.parametrize("servers", ["", ",", "localhost:99999", "a:9092,b:0"])
def test_a_server_that_cannot_be_one_is_refused(tmp_path: Path, servers: str) -> None:
    """An empty one, as of a shell variable that is not set, was none: `tier` then asked nobody whether brokers copy."""
    write_small_log(tmp_path / "LOGDIR")
    for words in (("tier", str(tmp_path / "LOGDIR")), ("publish",)):
        ran = tiersnap(*words, "--remote", str(tmp_path), "--bootstrap-server", servers)
        assert_said(ran, 2, f"{servers!r} is not HOST:PORT with a port from 1 to 65535")


def test_an_empty_warehouse_is_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_small_log(tmp_path / "LOGDIR")
    source = "--source", str(tmp_path / "LOGDIR")
    for words in (("run", *source, "--remote", str(tmp_path), "--print-submit"), ("report",)):
        assert_said(tiersnap(*words, "--warehouse", ""), 2, "'' is not a path or URI")


def test_a_usage_error_behind_the_name_of_the_command_is_one_too(capsys: pytest.CaptureFixture[str]) -> None:
    from tiersnap.jobs.main import run

    assert run(["scan", "--output=json", "--nonsense"]) == 2
    assert json.loads(capsys.readouterr().out)["command"] == "scan"
    assert run(["scan", "--nonsense"]) == 2
    assert capsys.readouterr().out == ""


def test_a_command_that_was_mistyped_is_answered_with_one_that_is_near() -> None:
    assert_said(tiersnap("scn"), 2, "No such command 'scn'. Did you mean scan?")
    assert_said(tiersnap("zzz"), 2, "No such command 'zzz'.")
    assert_said(tiersnap("maintain", "tablse"), 2, "Did you mean 'tables'?")
    assert_said(tiersnap("scan", "--segmnts", "x"), 2, "Did you mean '--segments'?")


@pytest.mark.parametrize(("former", "now"), [("version", "--version"), ("risk", "simulate --risk")])
def test_former_name_of_command_suggests_the_new_one(former: str, now: str) -> None:
    assert_said(tiersnap(former), 2, f"No such command '{former}'. Did you mean {now}?")


@pytest.mark.parametrize("command", ["repair", "verify", "install", "restore", "tier", "run"])
def test_a_from_that_names_a_place_suggests_remote(command: str) -> None:
    assert_said(tiersnap(command, "--from", "s3://bucket/x"), 2, "No such option '--from'. Did you mean '--remote'?")


def test_a_from_where_no_remote_is_taken_suggests_none() -> None:
    ran = tiersnap("dump", "--from", "s3://bucket/x")
    assert_said(ran, 2, "No such option '--from'")
    assert "--remote" not in ran.err


def test_help_is_written_for_people() -> None:
    ran = tiersnap("--help")
    assert ran.exit_code == 0
    assert "\\b" not in ran.out
    assert "\b" not in ran.out
    assert "4 the gate refused, 5 data corrupt" in ran.out


def test_a_name_on_the_terminal_moves_no_cursor_and_forges_no_line(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path)
    evil = "\x1b[2J\rfine\n\u202egnp.snapshot"
    (folder / evil).touch()
    (tmp_path / "a\x1b[1mb").mkdir()
    ran = tiersnap("scan", tmp_path, output="table")
    for text in (ran.out, ran.err):
        assert not set("\x1b\r\u202e") & set(text)
    assert r"\x1b[2J\rfine\n\u202egnp.snapshot" in ran.err
    assert r"a\x1b[1mb" in ran.err


def test_a_cell_of_a_table_moves_no_cursor_either(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "a\x1b[2J\n\u202eb"
    Output().rows(Row, [Row(evil, {evil: 2})])
    out = capsys.readouterr().out
    assert not set("\x1b\u202e") & set(out)
    assert out.count(r"a\x1b[2J\n\u202eb") == 2


@given(st.text())
def test_what_is_shown_can_be_printed(text: str) -> None:
    said = escaped(text)
    assert said.encode("utf-8").decode("utf-8") == said
    assert not any(ord(each) < 32 or 127 <= ord(each) < 160 for each in said)
    if text.isprintable():
        assert said == text


def test_markup_is_never_read_out_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    Output().rows(Row, [Row("[bold]orders[/bold]", "[link=http://x]click[/link] [/nothing]")])
    out = capsys.readouterr().out
    assert "[bold]orders[/bold]" in out
    assert "[link=http://x]click[/link] [/nothing]" in out


def test_a_summary_is_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass
    class Summary:
        seconds: dict[str, float]
        which: list[str]
        none: dict[str, int]

    Output().rows(Row, [], summary=Summary({"decode": 1.5}, ["a", "b"], {}))
    err = capsys.readouterr().err
    assert "seconds: 1.5 decode" in err
    assert "which: a, b" in err
    assert "{" not in err
    assert in_words(None) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"s3://AKIA:{SECRET}@bucket/x", "s3://***@bucket/x"),
        (f"s3://AKIA:{SECRET}/a+b@bucket/x is gone", "s3://***@bucket/x is gone"),
        (f"http://:{SECRET}@host:9000/", "http://***@host:9000/"),
        (f"https://{SECRET}@lineage.example/api", "https://***@lineage.example/api"),
        ("https://lineage.example/topic@1", "https://lineage.example/topic@1"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("hdfs://host:9000/a@b", "hdfs://host:9000/a@b"),
        ("hdfs://user@host:9000/a", "hdfs://user@host:9000/a"),
        ("s3://bucket/topic@1:2", "s3://bucket/topic@1:2"),
        (f"spark.hadoop.fs.s3a.secret.key={SECRET}", "spark.hadoop.fs.s3a.secret.key=***"),
        (f"sasl.password = {SECRET}, x", "sasl.password = ***, x"),
        (f"http://h:1/lineage?api_key={SECRET}&x={SECRET}", "http://h:1/lineage?api_key=***&x=***"),
        (f"http://h:1/?{SECRET} and more", "http://h:1/?*** and more"),
        (f"--openlineage 'https://h/a?sig={SECRET}' --x ?", "--openlineage 'https://h/a?sig=***' --x ?"),
        ("is it http://h:1/? Else: ask", "is it http://h:1/? Else: ask"),
        ("the token of 3 characters", "the token of 3 characters"),
    ],
)
def test_passwords_are_masked_and_nothing_else_is(text: str, expected: str) -> None:
    assert masked(text) == expected
    assert shown(text) == expected


@pytest.mark.parametrize("where", ["flag", "environment", "file"])
def test_a_password_in_a_uri_is_refused_wherever_it_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    uri = f"s3://AKIA:{SECRET}@bucket/x"
    words: list[str] = []
    if where == "flag":
        words = ["--remote", uri]
    elif where == "environment":
        monkeypatch.setenv("TIERSNAP_REMOTE", uri)
    else:
        (tmp_path / "settings.yaml").write_text(f"install:\n  remote: {uri}\n")
    before = ["--config", str(tmp_path / "settings.yaml")] if where == "file" else []
    ran = tiersnap(*before, "install", *words, "--to", str(tmp_path))
    assert_said(ran, 2, "s3://***@bucket/x", "AWS_SECRET_ACCESS_KEY")
    assert SECRET not in ran.err + ran.out


def test_config_shows_no_secret_and_durations_as_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSNAP_REMOTE", f"s3://AKIA:{SECRET}@bucket/x")
    monkeypatch.setenv("TIERSNAP_OPENLINEAGE", f"https://lineage.example/?code={SECRET}")
    monkeypatch.setenv("TIERSNAP_PUSHGATEWAY", f"https://push.example/?key={SECRET}")
    for output in ("table", "json", "jsonl"):
        assert SECRET not in (ran := tiersnap("config", output=output)).out + ran.err
    ran = tiersnap("config", "install", "repair", "run")
    assert ran.row(command="run", setting="openlineage")["value"] == "https://lineage.example/?code=***"
    assert ran.row(command="install", setting="remote")["value"] == "s3://***@bucket/x"
    assert ran.row(command="repair", setting="expiration")["value"] == "7d"
    assert ran.row(command="repair", setting="producer-expiration")["value"] == "1d"


@pytest.mark.parametrize("line", [f"{SECRET}: x", f"*{SECRET}", f"!{SECRET} x"])
def test_the_file_of_settings_is_not_quoted_in_an_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"place: {line}\n")  # not named like a secret, which would be masked anyhow
    ran = tiersnap("--config", path, "scan", "x")
    assert_said(ran, 2, "settings.yaml, line 1: not YAML")
    assert SECRET not in ran.err + ran.out
    path.write_bytes(b"a: \xff")
    assert_said(tiersnap("--config", path, "scan", "x"), 2, "not YAML")


def test_debug_output_has_no_requests_in_it(tmp_path: Path) -> None:
    before = {name: logging.getLogger(name).level for name in ("botocore", "py4j")}
    try:
        tiersnap("--log-level", "debug", "scan", tmp_path)
        assert not logging.getLogger("botocore.auth").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.DEBUG)
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def test_a_file_of_client_properties_that_is_no_text_is_refused(tmp_path: Path) -> None:
    from tiersnap.jobs.cli.text_files import read_properties

    (tmp_path / "p").write_bytes(os.urandom(4) + b"\xff\xfe")
    with pytest.raises(UsageError):
        read_properties(tmp_path / "p")


def test_missing_extra_names_the_extra_of_a_module() -> None:
    error = missing_extra(ModuleNotFoundError(name="deltalake.exceptions"), "tiersnap run")
    assert error is not None
    assert missing_extra(ModuleNotFoundError(name="tiersnap.jobs.nothing"), "x") is None
    assert "[spark]'" in error.hint


def test_without_any_word_the_help_is_shown_and_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    from tiersnap.jobs.main import run

    assert run([]) == 2
    assert "Usage: tiersnap" in capsys.readouterr().err


def test_the_second_words_of_every_group_are_known() -> None:
    from tiersnap.jobs.main import cli

    context = click.Context(cli, obj=Output())
    found = {name: cli.get_command(context, name) for name in COMMANDS}
    groups = {name: tuple(each.commands) for name, each in found.items() if isinstance(each, click.Group)}
    assert groups == SUBCOMMANDS
    assert words_of_command(["--quiet", "maintain", "tables", "--apply"]) == "maintain tables"
    assert words_of_command(["report", "--by", "topic"]) == "report"
