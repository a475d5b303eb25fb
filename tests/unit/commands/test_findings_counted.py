"""All commands count findings alike: what one calls damage, or cannot read, is never exit code 0 of another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import UNSET

from tests.reference.command import assert_said, tiersnap
from tests.reference.privileges import run_obeying_modes
from tests.reference.small_log import file_of, write_small_log
from tiersnap.jobs.commands.decode import damage_counts, of_damage
from tiersnap.jobs.pipeline.damage import Damage
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.log.findings import Finding, FindingKind, unreadable

pytestmark = pytest.mark.unit

META = "version=1\ncluster.id=8ocGbyB_RSCBc6V9xA_tOw\nnode.id=1\n"
WATERMARKS = "replication-offset-checkpoint"
NAMES = (
    "scan",
    "doctor",
    "verify",
    "repair",
    "repair --apply",
    "tier",
    "tier --apply",
    "collect",
    "collect --apply",
    "simulate",
)
MORE = ("producers", "simulate --risk", "transactions list", "transactions find-hanging")


def words(command: str, log_dir: Path, to: Path) -> list[str]:
    name, *flags = command.split()
    place = {"tier": ["--remote", str(to / "remote")], "collect": ["--to", str(to / "collected")]}.get(name, [])
    questions = [flag for flag in flags if not flag.startswith("--")]
    return [name, *questions, str(log_dir), *place, *(flag for flag in flags if flag.startswith("--"))]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "meta.properties").write_text(META)
    write_small_log(folder)
    write_small_log(folder, "payments", topic_id="5GXaOJXiRzOuReKRIUWzvw")
    return folder


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


# Harm, exit code, and commands that do not look there.
FOUND: dict[str, tuple[Callable[[Path], object], int, tuple[str, ...]]] = {
    "high watermarks garbled": (lambda logs: (logs / WATERMARKS).write_text("0\n2\norders zero 1\n"), 5, ()),
    "high watermarks missing": (lambda logs: (logs / WATERMARKS).unlink(), 6, ()),
    "active segment damaged": (
        lambda logs: flip_last_byte(file_of(logs / "orders-0", 15, ".log")),
        5,
        ("doctor", "collect", "collect --apply", "transactions list"),  # they read no segment, or judge none
    ),
    "a name that no broker opens": (
        lambda logs: (logs / "orders-0" / "tmp-1.snapshot").touch(),
        5,
        ("transactions list",),
    ),
    "a folder that keeps a broker from starting": (lambda logs: (logs / "lost+found").mkdir(), 5, ()),
}


@pytest.mark.parametrize("command", [*NAMES, *MORE])
@pytest.mark.parametrize("name", FOUND)
def test_command_counts_the_finding_as_all_others_do(log_dir: Path, tmp_path: Path, name: str, command: str) -> None:
    harm, code, blind = FOUND[name]
    harm(log_dir)
    ran = tiersnap(*words(command, log_dir, tmp_path))
    healthy = 6 if command.startswith("transactions list") else 0  # no partition of __transaction_state is here
    assert_said(ran, healthy if command in blind else code)


_ALL = """
import contextlib, io, json, sys
from tiersnap.jobs.main import run
found = {}
for command, words in json.load(sys.stdin).items():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        found[command] = run(words), "Traceback" in said.getvalue()
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", ["folder", WATERMARKS])
def test_what_may_not_be_read_ends_every_command_with_6(log_dir: Path, tmp_path: Path, name: str) -> None:
    path = log_dir / ("orders-0" if name == "folder" else name)
    commands = {command: words(command, log_dir, tmp_path) for command in (*NAMES, *MORE)}
    script = tmp_path / "all.py"
    script.write_text(_ALL.replace("json.load(sys.stdin)", repr(commands)))
    path.chmod(0o000)
    try:
        done = run_obeying_modes(str(script))
    finally:
        path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {command: [6, False] for command in commands}


_DUMP = "from tiersnap.jobs.main import main; main()"


def test_dump_says_in_a_sentence_that_a_folder_may_not_be_read(log_dir: Path) -> None:
    folder = log_dir / "orders-0"
    folder.chmod(0o000)
    try:
        done = run_obeying_modes("-c", _DUMP, "dump", str(file_of(folder, 0, ".log")))
    finally:
        folder.chmod(0o755)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "cannot be read: Permission denied" in done.stderr


def test_tier_says_what_to_do_when_no_high_watermark_is_known(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / WATERMARKS).unlink()
    for command in ("scan", "tier"):
        ran = tiersnap(*words(command, log_dir, tmp_path))
        assert_said(
            ran, 6, f"MISSING_CHECKPOINT: {log_dir}/{WATERMARKS}: ", "a running broker writes the file every 5 s"
        )
        assert "wait until replication" not in ran.err


def test_a_file_that_retention_took_meanwhile_is_no_damage() -> None:
    gone = unreadable("/logs/orders-0/0.log", FileNotFoundError(2, "No such file or directory"))
    assert exit_code_of([gone]) == 3
    assert exit_code_of([gone, Finding(FindingKind.PERMISSION_DENIED, "/x", -1, "")]) == 3
    assert exit_code_of([gone, Finding(FindingKind.BAD_CRC, "/x", -1, "")]) == 5


def test_audit_and_decode_call_no_missing_checkpoint_damage() -> None:
    missing = Finding(FindingKind.MISSING_CHECKPOINT, f"/logs/{WATERMARKS}", -1, "does not have")
    broken = Finding(FindingKind.BAD_CRC, "/logs/orders-0/0.log", 61, "CRC")
    told = Damage([missing], {FindingKind.MISSING_CHECKPOINT: 1})
    assert (damage_counts(told), list(of_damage(told))) == ((UNSET, UNSET), [])
    both = Damage([missing, broken], {FindingKind.MISSING_CHECKPOINT: 1, FindingKind.BAD_CRC: 1})
    assert damage_counts(both) == (1, UNSET)
    assert len(list(of_damage(both))) == 1
