"""What a command names for its user keeps the options that the user gave, and what is found is in every form."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import file_of, write_small_log

pytestmark = pytest.mark.unit


def commands(folder: Path) -> set[str]:
    text = (folder / "readiness.json").read_text()
    found = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)
        elif isinstance(value, str) and value.startswith("tiersnap "):
            found.add(value)

    walk(json.loads(text))
    return found


def test_the_commands_of_a_report_keep_layout_topic_and_the_rest_of_the_run(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs", with_snapshots=False)
    words = (
        "--remote",
        tmp_path / "remote",
        "--layout",
        "local-tiered-storage",
        "--topic",
        "ord.*",
        "--expiration",
        "9d",
    )
    ran = tiersnap("tier", tmp_path / "logs", *words, "--no-check-crc", "--report", tmp_path / "report")
    assert ran.exit_code == 0, ran.err
    found = commands(tmp_path / "report")
    by_tier = [command for command in found if command.startswith("tiersnap tier")]
    assert by_tier
    for option in ("--layout local-tiered-storage", "--topic 'ord.*'", "--expiration 9d", "--no-check-crc"):
        assert all(option in command for command in by_tier)
    (repair,) = [command for command in found if command.startswith("tiersnap repair")]
    assert "--topic 'ord.*'" in repair
    assert "--layout" not in repair


def test_findings_are_lines_of_their_own_in_json_lines_and_a_member_in_json(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path / "logs")
    path = file_of(folder, 5, ".log")
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    for command in (("scan", tmp_path / "logs"), ("tier", tmp_path / "logs", "--remote", tmp_path / "remote")):
        lines = [json.loads(line) for line in tiersnap(*command, output="jsonl").out.splitlines()]
        (found,) = [line["finding"] for line in lines if "finding" in line]
        assert (found["finding_kind"], found["path"]) == ("BAD_CRC", str(path))
        ran = tiersnap(*command)
        assert json.loads(ran.out)["result"]["findings"] == [found]
        assert f"BAD_CRC: {path}" in ran.err


def test_a_topic_id_for_a_topic_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs")
    ids = tmp_path / "ids.txt"
    ids.write_text("orders lZ6vvmajTWKDBUTV6SQAtQ\nordesr 5GXaOJXiRzOuReKRIUWzvw\nother BBBBBBBBBBBBBBBBBBBBBQ\n")
    words = ("tier", tmp_path / "logs", "--remote", tmp_path / "remote", "--topic-ids", ids)
    assert "--topic-ids names the topic ordesr" in tiersnap(*words).err
    selected = tiersnap(*words, "--topic", "ord.*").err
    assert "ordesr" in selected
    assert "topic orders" not in selected
    assert "other" not in selected


def test_one_id_for_two_topics_is_refused_with_both_names(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs")
    ids = tmp_path / "ids.txt"
    ids.write_text("orders lZ6vvmajTWKDBUTV6SQAtQ\norders lZ6vvmajTWKDBUTV6SQAtQ\nother lZ6vvmajTWKDBUTV6SQAtQ\n")
    ran = tiersnap("tier", tmp_path / "logs", "--remote", tmp_path / "remote", "--topic-ids", ids)
    assert_said(ran, 2, "line 3: other has the id of orders")


@pytest.mark.parametrize("name", ["or/ders", "o" * 250, "..", "o[" * 9000])
def test_a_line_of_topic_ids_whose_topic_kafka_refuses_is_shown_in_short(tmp_path: Path, name: str) -> None:
    write_small_log(tmp_path / "logs")
    ids = tmp_path / "ids.txt"
    ids.write_text(f"{name} lZ6vvmajTWKDBUTV6SQAtQ\n")
    ran = tiersnap("tier", tmp_path / "logs", "--remote", tmp_path / "remote", "--topic-ids", ids)
    assert_said(ran, 2, "line 1 is not `topic id`")
    assert len(ran.err) < 1000


def test_the_command_that_a_plan_names_is_whole_and_does_what_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_small_log(tmp_path / "log dir", with_snapshots=False)
    config = tmp_path / "settings.yaml"
    config.write_text("producer-expiration: 2d\n")
    monkeypatch.setenv("TIERSNAP_EXPIRATION", "9d")
    words = ("--partition", folder.name, "--topic", "ord.*", "--no-check-crc", "--now", "2999-01-01")
    planned = tiersnap("--config", config, "repair", folder.parent, *words)
    (line,) = re.findall("next: stop the broker, then (.*)", planned.err)
    monkeypatch.delenv("TIERSNAP_EXPIRATION")
    name, *typed = shlex.split(line)
    assert name == "tiersnap"
    assert {"--apply", "--no-check-crc", "9d", "ord.*", folder.name, str(config)} <= set(typed)
    assert tiersnap(*typed).rows == planned.rows != []
    assert len(list(folder.glob("*.snapshot"))) == len(planned.rows)


def test_the_command_for_untrusted_snapshots_keeps_what_was_given(tmp_path: Path) -> None:
    folder = write_small_log(tmp_path / "log dir")
    file_of(folder, 5, ".snapshot").write_bytes(b"no snapshot")
    out = tmp_path / "elsewhere"
    ran = tiersnap("repair", folder.parent, "--expiration", "9d", "--apply")
    (line,) = re.findall("snapshots? (?:is|are) wrong; to replace them: (.*)", ran.err)
    assert shlex.split(line) == [
        *("tiersnap", "repair", str(folder.parent), "--expiration", "9d", "--apply", "--replace")
    ]
    assert tiersnap(*shlex.split(line)[1:]).exit_code == 0
    assert "same options" not in tiersnap("repair", folder.parent, "--out", out).err


@pytest.mark.parametrize("command", ["tier", "scan"])
def test_report_names_absolute_paths_when_it_was_given_relative_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The page is read elsewhere, and a day later."""
    monkeypatch.chdir(tmp_path)
    write_small_log(tmp_path / "logs", with_snapshots=False)
    Path("ids.txt").write_text("orders AAAAAAAAAAAAAAAAAAAAAQ\n")
    words = ["logs", "--remote", "./remote", *(("--topic-ids", "ids.txt") if command == "tier" else ())]
    Path("remote").mkdir()
    for _ in range(2):
        tiersnap(command, *words, "--report", "page")
    said = commands(tmp_path / "page")
    assert len(said) > 2
    assert any(f"--remote {tmp_path}/remote" in each for each in said)
    for each in said:
        paths = [word for word in shlex.split(each) if Path(word).name in {"logs", "remote", "ids.txt", "page"}]
        assert paths
        assert all(path.startswith(f"{tmp_path}/") for path in paths), each


def test_a_path_is_kept_with_its_folder(tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("orders AAAAAAAAAAAAAAAAAAAAAQ\n")
    write_small_log(tmp_path / "logs", with_snapshots=False)
    words = ("--remote", tmp_path / "remote", "--topic-ids", ids, "--report", tmp_path / "report")
    tiersnap("tier", tmp_path / "logs", *words)
    assert any(f"--topic-ids {ids}" in command for command in commands(tmp_path / "report"))
