"""`tiersnap dump --output kafka` prints what kafka-dump-log prints, and says more where a file is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.dump_cases import DATA, MADE, REAL, golden_of_made, golden_of_real
from tiersnap.jobs.main import run

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("path", REAL)
def test_a_real_file_prints_as_kafkas_tool_prints_it(path: str, monkeypatch, capfdbinary) -> None:
    monkeypatch.chdir(DATA)
    code = run(["dump", "--output", "kafka", path])
    assert capfdbinary.readouterr().out == golden_of_real(path).read_bytes()
    assert code == 0


@pytest.mark.parametrize("name", MADE)
def test_a_made_file_prints_as_kafkas_tool_prints_it(name: str, tmp_path: Path, monkeypatch, capfdbinary) -> None:
    made = MADE[name]
    monkeypatch.chdir(tmp_path)
    code = run(["dump", "--output", "kafka", *made.flags, made.write(tmp_path)])
    observed = capfdbinary.readouterr()
    assert observed.out == golden_of_made(name).read_bytes()
    assert code == (5 if made.is_damaged else 0)
    if made.is_damaged:
        assert next(iter(made.files)) in observed.err.decode(), "the damage is on stderr, with the file"


def test_every_golden_file_belongs_to_a_case() -> None:
    kept = set(golden_of_made("x").parents[1].rglob("*.txt"))
    assert kept == {*map(golden_of_made, MADE), *map(golden_of_real, REAL)}


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
@pytest.mark.parametrize("name", MADE)
def test_every_output_agrees_on_what_is_damaged(name: str, form: str, tmp_path: Path, monkeypatch, capfdbinary) -> None:
    made = MADE[name]
    monkeypatch.chdir(tmp_path)
    assert run(["dump", "--output", form, *made.flags, made.write(tmp_path)]) == (5 if made.is_damaged else 0)
    assert bool(capfdbinary.readouterr().err) >= made.is_damaged


def test_several_files_print_one_after_the_other(monkeypatch, capfdbinary) -> None:
    monkeypatch.chdir(DATA)
    assert run(["dump", "--output", "kafka", *REAL]) == 0
    assert capfdbinary.readouterr().out == b"".join(golden_of_real(path).read_bytes() for path in REAL)


def test_paths_print_as_java_prints_them(tmp_path: Path, monkeypatch, capfdbinary) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t-0").mkdir()
    MADE["no entry"].write(tmp_path / "t-0")
    run(["dump", "--output", "kafka", ".//t-0//00000000000000000100.log"])
    assert capfdbinary.readouterr().out.startswith(b"Dumping ./t-0/00000000000000000100.log\n")


def test_what_kafkas_tool_does_not_read_is_named_and_left_out(tmp_path: Path, monkeypatch, capfdbinary) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert run(["dump", "--output", "kafka", "leader-epoch-checkpoint"]) == 0
    observed = capfdbinary.readouterr()
    assert observed.out == b"Dumping leader-epoch-checkpoint\n"
    assert b"kafka-dump-log does not print" in observed.err


def test_dump_ends_with_0_when_the_cleaner_left_an_empty_segment(tmp_path: Path, capfdbinary) -> None:
    for base in (0, 100):
        (tmp_path / f"{base:020d}.log").touch()
    assert run(["dump", str(tmp_path / f"{0:020d}.log")]) == 0
    assert b"a closed segment of 0 bytes. The log cleaner leaves such a file" in capfdbinary.readouterr().err


def test_dump_ends_with_5_when_a_kraft_snapshot_is_empty(tmp_path: Path) -> None:
    empty = tmp_path / f"{10:020d}-{1:010d}.checkpoint"
    empty.touch()
    assert run(["dump", str(empty)]) == 5
