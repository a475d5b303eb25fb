"""`tiersnap dump --output kafka` against kafka-dump-log itself: every bundled file, and damage nobody thought of."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker.harness import jars
from tests.broker.oracle.dump import dump_log
from tests.broker.oracle.java import compiled, run_java
from tests.reference import log_builder as lb
from tests.reference.dump_cases import DATA, MADE, REAL, SEGMENT, golden_of_made, golden_of_real
from tiersnap.snapshot.dump import render
from tiersnap.snapshot.dump.contents import Options
from tiersnap.snapshot.dump.files import identify

pytestmark = pytest.mark.broker

SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}
FILES = sorted(path.relative_to(DATA) for path in DATA.rglob("*") if path.suffix in SUFFIXES)
FOLDERS = sorted({path.parts[0] for path in FILES})
DUMP_EACH = Path(__file__).parent / "oracle/DumpEach.java"


def ours(path: Path) -> bytes:
    return b"".join(bytes(text) for text in render.as_kafka(render.open_contents(identify(str(path)), Options())))


def kafkas(paths: list[Path], out: Path) -> list[bytes]:
    """What the tool prints for each file, up to where it dies if it does."""
    out.mkdir()
    classes = compiled(DUMP_EACH, "4.1.1")
    subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars.classpath('4.1.1')}", "DumpEach", str(out)],
        input="".join(f"{path}\n" for path in paths),
        text=True,
        capture_output=True,
        check=True,
        timeout=300,
    )
    return [(out / str(number)).read_bytes() for number in range(len(paths))]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: the tool creates index files that it misses."""
    return shutil.copytree(DATA, tmp_path_factory.mktemp("dump") / "data")


@pytest.mark.kafka("4.1.1")
def test_every_bundled_file_prints_as_the_tool_prints_it(data: Path) -> None:
    paths = [data / path for path in FILES]
    assert b"".join(map(ours, paths)).decode() == dump_log(paths, version="4.1.1")


@pytest.mark.nightly
@pytest.mark.kafka("4.3.1")
@pytest.mark.parametrize("folder", FOLDERS)
def test_later_tools_differ_only_in_a_space_after_producers_without_a_batch(data: Path, folder: str) -> None:
    paths = [data / path for path in FILES if path.parts[0] == folder]
    observed = b"".join(map(ours, paths)).decode().splitlines()
    assert [line.rstrip() for line in observed] == dump_log(paths, version="4.3.1").splitlines()


@pytest.mark.nightly
@pytest.mark.kafka("4.1.1")
def test_the_golden_files_are_what_the_tool_prints(data: Path, tmp_path: Path) -> None:
    made = {name: case for name, case in MADE.items() if not case.flags}
    paths = [data / path for path in REAL]
    paths += [tmp_path / str(number) / case.write(tmp_path / str(number)) for number, case in enumerate(made.values())]
    golden = [golden_of_real(path) for path in REAL] + [golden_of_made(name) for name in made]
    for path, observed, expected in zip(paths, kafkas(paths, tmp_path / "out"), golden, strict=True):
        assert _without_path(observed) == _without_path(expected.read_bytes()), path


@pytest.mark.kafka("4.1.1")
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(9))
def test_random_damage_prints_as_the_tool_prints_it(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    sources = [DATA / path for path in FILES if path.suffix != ".log" or (DATA / path).stat().st_size < 10_000]
    paths = [_damaged(chance, sources, tmp_path / str(number)) for number in range(400)]
    observed = [ours(path) for path in paths]
    for path, mine, expected in zip(paths, observed, kafkas(paths, tmp_path / "out"), strict=True):
        assert mine == expected, path


@pytest.mark.nightly
@pytest.mark.kafka("4.1.1")
def test_the_golden_indexes_are_what_kafkas_recovery_writes() -> None:
    golden = DATA.parent / "golden/recover-4.1.1"
    classes = compiled(golden / "Recover.java", "4.1.1")
    assert run_java("4.1.1", "Recover", [str(DATA)], classes=classes) == (golden / "indexes.tsv").read_text()


def _damaged(chance: random.Random, sources: list[Path], folder: Path) -> Path:
    folder.mkdir()
    if chance.random() < 0.6:
        path = folder / f"{100:020d}.log"
        data = bytearray(SEGMENT)
        for entry in (lb.legacy_entry, lb.data_batch):
            if chance.random() < 0.5:
                data = bytearray(entry(100, chance.randrange(2) or 1)) + data
    else:
        source = chance.choice(sources)
        path = folder / source.name
        data = bytearray(source.read_bytes())
        for suffix in (".log", ".index"):
            if source.suffix in (".index", ".timeindex") and suffix != source.suffix:
                shutil.copy(source.with_suffix(suffix), folder)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        if data:
            position = chance.randrange(min(len(data), chance.choice((100, len(data)))))
            data[position] = chance.choice((data[position] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255))
    if chance.random() < 0.3:
        del data[chance.randrange(len(data) + 1) :]
    if chance.random() < 0.2:
        data += bytes(chance.choice((1, 8, 12, 34, 96)))
    path.write_bytes(data)
    return path


def _without_path(text: bytes) -> bytes:
    """The text without the folder in `Dumping <path>` and `<path> is empty.`"""
    head = text.partition(b"\n")[0]
    folder = head.removeprefix(b"Dumping ").rpartition(b"/")[0] + b"/"
    return text.replace(folder, b"")
