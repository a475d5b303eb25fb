"""Settings: file below environment below flag, and nothing that nobody knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiersnap.jobs.main import run as tiersnap
from tiersnap.snapshot.units import count_of, format_duration, parse_duration

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def settings(capsys: Capture, *argv: str) -> dict[tuple[str, str], tuple[str | None, str]]:
    assert tiersnap([*argv, "config", "repair", "--output", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["result"]["rows"]
    return {(row["command"], row["setting"]): (row["value"], row["source"]) for row in rows}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiersnap.yaml"
    path.write_text("expiration: 3d\nrepair:\n  topic: orders\n  check-crc: false\n")
    return path


def test_a_default_is_named_as_one(capsys: Capture) -> None:
    assert settings(capsys)["repair", "expiration"] == ("7d", "default")


def test_the_file_wins_over_the_default(capsys: Capture, file: Path) -> None:
    found = settings(capsys, "--config", str(file))
    assert found["repair", "expiration"] == ("3d", "file")
    assert found["repair", "check-crc"] == ("False", "file")


def test_the_environment_wins_over_the_file(capsys: Capture, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERSNAP_EXPIRATION", "12h")
    assert settings(capsys, "--config", str(file))["repair", "expiration"] == ("12h", "environment")


def test_a_flag_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("TIERSNAP_TOPIC", "nobody")
    assert tiersnap(["scan", "tests/data/ledger-2.7.2/logs", "--topic", "ledger"]) == 4
    assert "ledger-0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expirations: 3d\n", "'expirations' is not a setting"),
        ("repair:\n  keep: deltas\n", "'keep' is not a setting of repair"),
        ("apply: true\n", "apply cannot be set in the file: give --apply on the command line"),
        ("repair:\n  replace: true\n", "replace cannot be set in the file: give --replace on the command line"),
        ("restore:\n  topic: orders\n", "topic cannot be set in the file: give --topic on the command line"),
        ("delete-bad: true\n", "delete-bad cannot be set in the file: give --delete-bad on the command line"),
        ("unproven: true\n", "unproven cannot be set in the file: give --unproven on the command line"),
        ("partition: churn-0\n", "partition cannot be set in the file: give --partition on the command line"),
        ("topic:\n", "topic has no value"),
        ("repair:\n  topic:\n", "topic of repair has no value"),
        ("topic: yes\n", "topic: the value is a YAML boolean, but the option is not a flag"),
        ("- a\n", "expected `setting: value`"),
        ("a: [\n", "not YAML"),
        ("repair: 7\n", "expected `setting: value` lines below repair"),
    ],
)
def test_a_file_with_something_unknown_is_refused_by_name(
    text: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "tiersnap.yaml"
    path.write_text(text)
    assert tiersnap(["--config", str(path), "scan", "tests/data/ledger-2.7.2/logs"]) == 2
    assert said in capsys.readouterr().err


def test_a_topic_for_other_commands_is_none_for_one_that_names_its_own(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tiersnap.yaml"
    path.write_text(f"remote: {tmp_path}\ntopic: orders\n")
    assert tiersnap(["--config", str(path), "restore", "--to", str(tmp_path)]) == 2
    assert "no topic was named" in capsys.readouterr().err


def test_no_variable_makes_a_command_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    monkeypatch.setenv("TIERSNAP_APPLY", "1")
    assert tiersnap(["repair", "tests/data/ledger-2.7.2/logs"]) == 0
    assert "nothing was written" in capsys.readouterr().err


def test_a_value_that_cannot_be_parsed_names_the_option(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tiersnap.yaml"
    path.write_text("expiration: soon\n")
    assert tiersnap(["--config", str(path), "repair", "tests/data/ledger-2.7.2/logs"]) == 2
    assert "--expiration" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["1", "-5", "0x10", "12:30:00", "1.5"])
def test_a_number_that_yaml_reads_is_no_duration_without_a_unit(number: str, tmp_path: Path, capsys: Capture) -> None:
    """Nor is it one in the environment; a second is no place to forget a producer at."""
    path = tmp_path / "tiersnap.yaml"
    path.write_text(f"producer-expiration: {number}\n")
    assert tiersnap(["--config", str(path), "scan", "tests/data/ledger-2.7.2/logs"]) == 2
    assert "'--producer-expiration'" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["remote:", "from:", "warehouse:", "layout:", "checksums:"])
@pytest.mark.parametrize(
    "command",
    [
        ("tier", "tests/data/ledger-2.7.2/logs"),
        ("restore", "--topic", "ledger", "--to", "restored"),
        ("report",),
    ],
    ids=lambda command: command[0],
)
def test_a_line_without_a_value_is_named_by_every_command(
    line: str, command: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "tiersnap.yaml"
    path.write_text(f"{line}\n")
    assert tiersnap(["--config", str(path), *command]) == 2
    assert f"{line.removesuffix(':')} has no value" in capsys.readouterr().err


def test_numbers_and_flags_of_a_file_are_taken_as_they_are_typed(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tiersnap.yaml"
    path.write_text("repair:\n  check-crc: no\n  topic: 2024\n")
    found = settings(capsys, "--config", str(path))
    assert found["repair", "check-crc"] == ("False", "file")
    assert found["repair", "topic"] == ("2024", "file")


def test_config_of_an_unknown_command_lists_the_known(capsys: Capture) -> None:
    assert tiersnap(["config", "rnu"]) == 2
    assert "the commands are doctor, scan" in capsys.readouterr().err


def test_a_duration_is_shown_as_it_is_written_and_written_as_it_is_shown() -> None:
    for text in ("7d", "36h", "15m", "90s", "1500ms", "0ms", "none"):
        assert format_duration(parse_duration(text)) == text
    shortest = [format_duration(parse_duration(text)) for text in ("24h", "168h", "60s", "NONE")]
    assert shortest == ["1d", "7d", "1m", "none"]


@pytest.mark.parametrize("text", ["7", "", "d", "7 d", "-1d", "1.5h", "7days", "9" * 5000 + "d", "\u0667d"])
def test_a_number_without_a_unit_and_other_words_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="use 7d, 12h"):
        parse_duration(text)


def test_the_times_that_are_no_numbers_are_shown_by_name(capsys: Capture) -> None:
    found = settings(capsys)
    assert found["repair", "as-of"] == ("boundary", "default")
    assert ("repair", "now") not in found


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (1, ("segment",), "1 segment"),
        (0, ("segment",), "0 segments"),
        (21, ("segment",), "21 segments"),
        (1, ("copy", "copies"), "1 copy"),
        (2, ("copy", "copies"), "2 copies"),
        (1, ("snapshot is", "snapshots are"), "1 snapshot is"),
    ],
)
def test_a_noun_is_singular_after_one_alone(count: int, words: tuple[str, ...], said: str) -> None:
    assert count_of(count, *words) == said


@pytest.mark.parametrize(
    "value",
    ["9" * 5000, "2026-13-45", "0x" + "f" * 5000, "1" + ":00" * 2000],
    ids=["5,000 digits", "no date", "5,000 hexadecimal digits", "base 60"],
)
def test_a_value_that_yaml_cannot_make_anything_of_is_refused(value: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tiersnap.yaml"
    path.write_text(f"max-bytes-per-second: {value}\n")
    assert tiersnap(["--config", str(path), "config"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert value not in err


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 30, "253402300800000"], ids=["5,000", "30", "the year 10000"])
def test_a_time_that_no_calendar_has_is_refused(text: str, capsys: Capture) -> None:
    assert tiersnap(["scan", "tests/data/ledger-2.7.2/logs", "--now", text]) == 2
    assert "is not a time" in capsys.readouterr().err
    assert tiersnap(["scan", "tests/data/ledger-2.7.2/logs", "--now", "253402300799999"]) == 4


def test_settings_and_environment_never_switch_on_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = tmp_path / "tiersnap.yaml"
    path.write_text("mend:\n  delete-bad: yes\n")
    assert tiersnap(["--config", str(path), "config"]) == 2
    assert "delete-bad cannot be set in the file: give --delete-bad on the command line" in capsys.readouterr().err
    monkeypatch.setenv("TIERSNAP_DELETE_BAD", "1")
    # Without a cluster the option would be refused by its name.
    assert tiersnap(["mend", "--remote", str(tmp_path)]) == 2
    assert "--delete-bad" not in capsys.readouterr().err
