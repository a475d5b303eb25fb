"""Help pages: what most need first, examples that work, and completion in three shells."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.reference.command import tiersnap
from tests.reference.local_facts import write_tables
from tests.reference.recovered import DATA
from tests.reference.stored_snapshots import put_snapshot
from tiersnap.jobs.cli.command import SECTIONS
from tiersnap.jobs.cli.option_types import clock
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.settings import commands_of, long_options
from tiersnap.jobs.commands import COMMANDS, GROUPS
from tiersnap.jobs.main import cli
from tiersnap.remote_storage.metadata.segment_metadata import name_of
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.upload.snapshot_source import TrustedSnapshot
from tiersnap.remote_storage.upload.stored_snapshots import put_manifest
from tiersnap.snapshot.gate.trusted import Provenance
from tiersnap.snapshot.log.log_dir import open_log_dir

pytestmark = pytest.mark.unit

FOUND = commands_of(click.Context(cli, obj=Output()), cli)


def examples_of(command: click.Command) -> list[str]:
    """The lines of a command's help that can be typed as they are, those that go on joined."""
    lines = (command.help or "").replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip().startswith("tiersnap ")]


EXAMPLES = [(words, example) for words, command in FOUND.items() for example in examples_of(command)]
# Executed by tests/spark, tests/broker and `make demo`; here they are parsed.
ELSEWHERE = {"run", "audit", "decode", "maintain tables", "demo"}
# Executed beside a broker by tests/unit/test_situation_of_commands.py and tests/broker/test_unblock.py.
BESIDE_A_BROKER = {
    *("tiersnap scan", "tiersnap verify", "tiersnap tier", "tiersnap publish", "tiersnap mend"),
    *("tiersnap unblock", "tiersnap unblock --apply"),
}
LOGS = DATA / "kafka-3.9.1" / "logs"
WANTED = ("orders-*", "payments-*", "__transaction_state-*", "*checkpoint", "meta.properties")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host's disks, remote storage with its segments, and a warehouse."""
    root = tmp_path_factory.mktemp("world")
    for pattern in WANTED:
        for each in LOGS.glob(pattern):
            copy = shutil.copytree if each.is_dir() else shutil.copy
            (root / "data").mkdir(exist_ok=True)
            copy(each, root / "data" / each.name)
    for disk in ("disk-2", "new-disk"):
        (root / disk).mkdir()
        shutil.copy(root / "data" / "meta.properties", root / disk)
    assert tiersnap("tier", root / "data", "--remote", root / "tiers", "--apply").exit_code == 0
    _store_a_snapshot(root)
    write_tables(root / "warehouse", root / "data", run=1, now=clock())
    (root / "server.properties").write_text(f"log.dirs={root}/new-disk\n", encoding="utf-8")
    (root / "tiersnap.yaml").write_text("expiration: 8d\n", encoding="utf-8")
    return root


def _store_a_snapshot(root: Path) -> None:
    """What a run stores, and `install` brings to a host."""
    log_dir, store = open_log_dir(str(root / "data")), DirectoryStore(root / "tiers")
    partition = next(each for each in log_dir.partitions() if each.topic == "orders")
    offset, file = next(iter(partition.snapshots.items()))
    snapshot = TrustedSnapshot(offset, Path(file.path).read_bytes(), Provenance.COMPUTED)
    at = name_of(partition)
    record, _ = put_snapshot(store, at, snapshot, run_id="r1", fold_start_offset=0)
    put_manifest(store, at, "r1", [record])


def in_world(example: str, root: Path) -> list[str]:
    """The words of an example, its places replaced by those of the world; what a shell expands is expanded."""
    for place, own in {
        "/data-1/kafka,/data-2/kafka": f"{root}/data,{root}/disk-2",
        "/etc/kafka/server.properties": f"{root}/server.properties",
        "/var/lib/kafka/data": f"{root}/data",
        "/new-disk/kafka": f"{root}/new-disk",
        "s3://bucket/tiers": f"{root}/tiers",
        "s3://lake/collected": f"{root}/collected",
        "s3://lake/tiersnap": f"{root}/warehouse",
        "--transactional-id payments-1": "--transactional-id java-0",
    }.items():
        example = example.replace(place, own)
    words = shlex.split(example, comments=True)[1:]
    return [found for word in words for found in (sorted(glob.glob(word)) if "*" in word else [word])]  # noqa: PTH207


@pytest.mark.parametrize(("command", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_example_of_help_works_as_it_stands(
    command: str, example: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "world"
    shutil.copytree(world, root)
    monkeypatch.chdir(root)
    words = in_world(example, root)
    if command in ELSEWHERE or "--bootstrap-server" in words or example in BESIDE_A_BROKER:
        FOUND[command].make_context(command, words[len(command.split()) :], obj=Output())
    else:
        ran = tiersnap(*words, output="table")
        assert ran.exit_code in (0, 4, 6), ran.err
        assert ran.out


def test_every_command_has_a_group_and_examples() -> None:
    assert [name for group in GROUPS.values() for name in group] == list(COMMANDS)
    assert {words for words, _ in EXAMPLES} == set(FOUND)


def test_sections_of_help_name_options_that_exist_once_and_leave_few_for_the_top() -> None:
    named = [name for names in SECTIONS.values() for name in names]
    options = {words: set(long_options(command)) for words, command in FOUND.items()}
    assert len(named) == len(set(named))
    assert set(named) <= set().union(*options.values())
    assert {words for words, names in options.items() if len(names - set(named)) > 15} == set()


def test_help_page_shows_examples_and_common_options_before_the_rest() -> None:
    page = tiersnap("scan", "--help").out
    order = (
        "List segments",
        "Examples:",
        "Options:\n  --server-properties",
        "LOGDIR is an entry",
        "Remote storage:",
        "--check-crc",
    )
    assert sorted(order, key=page.index) == list(order)
    common, _, rare = tiersnap("repair", "--help").out.partition("\nRarely needed:\n")
    assert "--topic-ids FILE" in common
    assert "--log-start" in rare
    top = tiersnap("--help").out
    assert sorted(GROUPS, key=lambda title: top.index(f"\n{title}:\n")) == list(GROUPS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_one_line_of_the_help_and_completes(shell: str) -> None:
    program = "import sys; sys.argv[0] = 'tiersnap'; from tiersnap.jobs.main import main; main()"

    def answered(instruction: str, **variables: str) -> str:
        environment = {**os.environ, "_TIERSNAP_COMPLETE": f"{shell}_{instruction}", **variables}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"{shell}_source" in tiersnap("--help").out
    assert "_TIERSNAP_COMPLETE" in answered("source")
    at = "--seg" if shell == "fish" else "2"
    assert "--segments" in answered("complete", COMP_WORDS="tiersnap scan --seg", COMP_CWORD=at)
