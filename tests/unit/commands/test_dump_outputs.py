"""Tables, JSON and JSON lines of `tiersnap dump`, its flags, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference import log_builder as lb
from tests.reference.dump_cases import EVERY_KIND, LOG, MADE, SEGMENT
from tiersnap.jobs.main import run
from tiersnap.snapshot.dump import files
from tiersnap.snapshot.dump.files import FileKind
from tiersnap.snapshot.errors import SourceNotFoundError, UsageError

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests/data"


@pytest.fixture
def dump(tmp_path: Path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)

    def dump(*args: str) -> tuple[int, str, str]:
        code = run(["dump", *args])
        observed = capfdbinary.readouterr()
        return code, observed.out.decode(), observed.err.decode()

    return dump


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_batch_as_a_json_line_has_every_header_field(dump) -> None:
    Path(LOG).write_bytes(lb.data_batch(100, 3, 7, 2, 5, transactional=True, leader_epoch=4, timestamp=1000))
    code, out, err = dump("--output", "jsonl", LOG)
    assert (code, err) == (0, "")
    assert objects(out) == [
        {
            "file": LOG,
            "kind": "log",
            "position": 0,
            "size": 85,
            "base_offset": 100,
            "last_offset": 102,
            "record_count": 3,
            "producer_id": 7,
            "producer_epoch": 2,
            "base_sequence": 5,
            "last_sequence": 7,
            "is_transactional": True,
            "is_control": False,
            "control_type": None,
            "coordinator_epoch": None,
            "codec": "none",
            "partition_leader_epoch": 4,
            "timestamp_type": "CreateTime",
            "base_timestamp": 1000,
            "max_timestamp": 1002,
            "delete_horizon": None,
            "magic": 2,
            "crc": int.from_bytes(Path(LOG).read_bytes()[17:21], "big"),
            "is_valid": True,
            "problem": None,
        }
    ]


def test_markers_emptied_batches_and_old_entries_keep_what_they_have(dump) -> None:
    Path(LOG).write_bytes(SEGMENT)
    rows = objects(dump("--output", "jsonl", LOG)[1])
    assert len(rows) == len(EVERY_KIND)
    assert [(row["control_type"], row["coordinator_epoch"]) for row in rows if row["control_type"]] == [
        ("COMMIT", 3),
        ("ABORT", 3),
        ("LEADER_CHANGE", None),
    ]
    assert [row["codec"] for row in rows[6:11]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    old, emptied, horizon = rows[0], rows[12], rows[13]
    assert (old["magic"], old["max_timestamp"], old["producer_id"], old["is_control"]) == (0, None, None, None)
    assert (emptied["record_count"], emptied["producer_id"], emptied["last_sequence"]) == (0, 9, 7)
    assert horizon["delete_horizon"] == lb.TIMESTAMP + 9
    assert rows[14]["delete_horizon"] == -1, "a horizon of -1 is one"
    assert rows[-2]["last_sequence"] == 1, "sequences wrap"


def test_the_json_document_holds_entries_and_damage_of_every_file(dump) -> None:
    damaged = MADE["a flipped bit in the records"]
    Path("a").mkdir()
    Path("b").mkdir()
    sound = f"a/{MADE['a producer snapshot'].write(Path('a'))}"
    broken = f"b/{damaged.write(Path('b'))}"
    code, out, err = dump("--output", "json", sound, broken)
    document = json.loads(out)
    assert code == 5
    assert {key: document[key] for key in ("schema_version", "command", "errors")} == {
        "schema_version": 1,
        "command": "dump",
        "errors": [],
    }
    first, second = document["result"]
    assert (first["file"], first["kind"], first["offset"], first["damage"]) == (sound, "producer_snapshot", 100, [])
    assert [entry["producer_id"] for entry in first["entries"]] == [4000, 11, 1, 2], "in the order of the file"
    assert first["entries"][1] == {
        "producer_id": 11,
        "producer_epoch": 12,
        "last_sequence": None,
        "last_offset": None,
        "offset_delta": None,
        "timestamp": 1700000000123,
        "coordinator_epoch": None,
        "current_txn_first_offset": None,
    }
    assert [entry["problem"] for entry in second["entries"]] == [None, "BAD_CRC", None]
    assert [(item["finding_kind"], item["position"]) for item in second["damage"]] == [("BAD_CRC", 77)]
    assert "BAD_CRC" in err


def test_a_document_without_entries_is_still_a_document(dump) -> None:
    MADE["no entry"].write(Path())
    assert json.loads(dump("--output", "json", LOG)[1])["result"][0]["entries"] == []


def test_a_table_is_plain_text_with_aligned_columns_when_nobody_watches(dump) -> None:
    Path(LOG).write_bytes(lb.data_batch(100, 2, 7, 0, 0) + lb.marker(102, 7, 0, 3, commit=True))
    _, out, _ = dump(LOG)
    assert out.splitlines() == [
        "position  size  base offset  last offset  record count  producer id  producer epoch  base sequence"
        "  last sequence  contents  coordinator epoch  codec  partition leader epoch"
        "  max timestamp             problem",
        "       0    77          100          101             2            7               0              0"
        "              1  data                      -  none                        0  2023-11-14T22:13:20.001Z  -",
        "      77    78          102          102             1            7               0              -"
        "              -  COMMIT                    3  none                        0  2023-11-14T22:13:20.000Z  -",
    ]
    assert "\x1b" not in out


def test_text_files_of_a_log_directory(dump) -> None:
    Path("leader-epoch-checkpoint").write_text(lb.leader_epochs_text([(0, 0), (3, 500)]))
    for name in ("replication-offset", "recovery-point-offset", "log-start-offset", "cleaner-offset"):
        Path(f"{name}-checkpoint").write_text(lb.offsets_text({("b", 1): 5, ("a", 0): 2**40}))
    Path("partition.metadata").write_text("version: 0\ntopic_id: lZ6vvmajTWKDBUTV6SQAtQ")
    code, out, _ = dump("--output", "jsonl", *sorted(map(str, Path().iterdir())))
    rows = objects(out)
    assert code == 0
    assert [row for row in rows if row["kind"] == "leader_epochs"] == [
        {"file": "leader-epoch-checkpoint", "kind": "leader_epochs", "epoch": epoch, "start_offset": start}
        for epoch, start in ((0, 0), (3, 500))
    ]
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows if row["kind"] == "offset_checkpoint"] == [
        ("b", 1, 5),
        ("a", 0, 2**40),
    ] * 4
    assert rows[-1]["kind"] in ("offset_checkpoint", "partition_metadata")
    assert [row["topic_id"] for row in rows if row["kind"] == "partition_metadata"] == ["lZ6vvmajTWKDBUTV6SQAtQ"]


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
def test_a_damaged_text_file_is_damage_and_no_crash(dump, form: str) -> None:
    Path("leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    Path("partition.metadata").write_bytes(b"version: 0\ntopic_id: \xff\n")
    code, out, err = dump("--output", form, "leader-epoch-checkpoint", "partition.metadata")
    assert code == 5
    assert "the file has 1 entry, but line 2 announces 2" in err
    assert "partition.metadata" in err
    if form == "json":
        assert [len(file["damage"]) for file in json.loads(out)["result"]] == [1, 1]


def test_count_limits_the_entries_of_each_file(dump) -> None:
    Path(LOG).write_bytes(SEGMENT)
    snapshot = MADE["a producer snapshot"].write(Path())
    index = MADE["a transaction index"].write(Path())
    rows = objects(dump("--output", "jsonl", "-c", "1", LOG, snapshot, index)[1])
    assert [row["kind"] for row in rows] == ["log", "producer_snapshot", "transaction_index"]
    code, out, _ = dump("--output", "kafka", "--count", "2", LOG)
    assert (code, out.count("\n")) == (0, 4)


def test_count_stops_before_damage_that_comes_later(dump) -> None:
    name = MADE["a flipped bit in the records"].write(Path())
    assert dump("-c", "1", name)[0] == 0
    assert dump("-c", "2", name)[0] == 5


def test_max_bytes_stops_at_the_last_batch_that_ends_within(dump) -> None:
    Path(LOG).write_bytes(SEGMENT)
    entries = [len(entry) for entry in EVERY_KIND]
    for limit, expected in ((0, 0), (entries[0], 1), (sum(entries[:2]), 2), (sum(entries[:4]) - 1, 3), (10**9, 18)):
        code, out, err = dump("--output", "jsonl", "--max-bytes", str(limit), LOG)
        assert (code, len(out.splitlines()), err) == (0, expected, "")


def test_without_crc_checks_validity_is_unknown(dump) -> None:
    name = MADE["a flipped bit in the records"].write(Path())
    code, out, _ = dump("--no-crc", "--output", "jsonl", name)
    assert code == 0
    assert [row["is_valid"] for row in objects(out)] == [None] * 3


def test_kafkas_text_needs_the_crc(dump) -> None:
    name = MADE["every kind of entry"].write(Path())
    code, out, err = dump("--no-crc", "--output", "kafka", name)
    assert (code, out) == (2, "")
    assert "isvalid" in err


def test_more_damage_than_anyone_reads_is_counted(dump) -> None:
    Path(LOG).write_bytes(b"".join(lb.data_batch(100, 1) for _ in range(40)))
    code, _, err = dump(LOG)
    assert code == 5
    assert err.count("BAD_OFFSET") == 10
    assert "29 more damaged entries" in err


def test_the_partial_tail_of_an_active_segment_is_talk_and_can_be_silenced(tmp_path: Path, capfdbinary) -> None:
    path = tmp_path / MADE["a partial tail"].write(tmp_path)
    assert run(["dump", str(path)]) == 0
    assert b"normal in an active segment" in capfdbinary.readouterr().err
    assert run(["--quiet", "dump", str(path)]) == 0
    assert capfdbinary.readouterr().err == b""


def test_an_index_without_its_log_is_shown_and_said_to_be_unchecked(dump) -> None:
    Path("00000000000000000100.index").write_bytes(bytes.fromhex("00000005000010680000000a00002134"))
    code, out, err = dump("--output", "jsonl", "00000000000000000100.index")
    assert code == 0
    assert [(row["offset"], row["position"]) for row in objects(out)] == [(105, 4200), (110, 8500)]
    assert "the folder has no 00000000000000000100.log" in err


@pytest.mark.parametrize(
    ("name", "kind", "offset"),
    [
        ("00000000000000000042.log", FileKind.LOG, 42),
        ("00000000000000000042.log.deleted", FileKind.LOG, 42),
        ("00000000000000000042.log.swap", FileKind.LOG, 42),
        ("00000000000000000042.snapshot.tmp", FileKind.PRODUCER_SNAPSHOT, 42),
        ("00000000000000000042-L5TL-d8vR8KrUxQyiVh5Aw.timeindex", FileKind.TIME_INDEX, 42),
        ("00000000000000000042-0000000003.checkpoint", FileKind.KRAFT_SNAPSHOT, 42),
        ("bootstrap.checkpoint", FileKind.KRAFT_SNAPSHOT, None),
        ("cleaner-offset-checkpoint", FileKind.OFFSET_CHECKPOINT, None),
    ],
)
def test_files_are_known_by_the_names_that_kafka_gives(
    tmp_path: Path, name: str, kind: FileKind, offset: int | None
) -> None:
    (tmp_path / name).touch()
    found = files.identify(str(tmp_path / name))
    assert (found.kind, found.offset) == (kind, offset)


def test_a_missing_file_a_folder_and_an_unknown_name_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="does not exist") as raised:
        files.identify(str(tmp_path / "00000000000000000000.log"))
    assert "tiersnap scan" in raised.value.hint
    with pytest.raises(UsageError, match="is a directory") as raised:
        files.identify(str(tmp_path))
    assert f"tiersnap dump {tmp_path}/*" in raised.value.hint
    (tmp_path / "orders.txt").touch()
    for name in (f"{1 << 63:020d}.log", f"{'9' * 23}.snapshot"):
        (tmp_path / name).touch()
        with pytest.raises(UsageError, match="not one of Kafka's storage files"):
            files.identify(str(tmp_path / name))
    with pytest.raises(UsageError, match="not one of Kafka's storage files") as raised:
        files.identify(str(tmp_path / "orders.txt"))
    assert "leader-epoch-checkpoint" in raised.value.hint


def test_nothing_is_printed_when_one_of_the_files_is_missing(dump) -> None:
    name = MADE["every kind of entry"].write(Path())
    code, out, err = dump(name, "00000000000000000999.log")
    assert (code, out) == (2, "")
    assert "00000000000000000999.log does not exist" in err


def test_the_group_option_before_the_command_counts_too(dump, capfdbinary) -> None:
    name = MADE["an offset index"].write(Path())
    assert run(["--output", "jsonl", "dump", name]) == 0
    assert len(objects(capfdbinary.readouterr().out.decode())) == 2


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(b"".join(lb.data_batch(100 + i, 1) for i in range(20_000)))
    command = f'"{sys.executable}" -m tests.reference.tiersnap dump "{path}" | head -1'
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("position")
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_on_a_terminal_the_headings_stand_out(tmp_path: Path) -> None:
    name = MADE["an offset index"].write(tmp_path)
    reader, terminal = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "40"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.reference.tiersnap", "dump", str(tmp_path / name)],
        cwd=ROOT,
        stdout=terminal,
        env=environment,
    ):
        os.close(terminal)
        text = b""
        while part := _read(reader):
            text += part
    os.close(reader)
    assert text.replace(b"\r", b"") == b"\x1b[1moffset  position\x1b[0m\n   102      6140\n   104     12280\n"


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.parametrize("form", ["table", "kafka"])
def test_an_index_beside_a_log_that_cannot_be_opened_is_printed(dump, tmp_path, form):
    name = "00000000000000000000"
    index = DATA / f"kafka-4.1.1/logs/orders-0/{name}.index"
    (tmp_path / index.name).write_bytes(index.read_bytes())
    os.mkfifo(f"{name}.log")
    code, out, err = dump(index.name, "--output", form)
    assert (code, "329960" in out) == (0, True)
    assert (
        f"{name}.log: not a regular file: a FIFO, so the entries of {index.name} are not compared with this log" in err
    )


@pytest.mark.parametrize("suffix", ["log", "index"])
def test_a_folder_whose_name_is_no_utf_8_is_printed_as_it_is_called(tmp_path, capfdbinary, suffix):
    path = tmp_path / os.fsdecode(b"\xff") / f"00000000000000000000.{suffix}"
    path.parent.mkdir()
    path.touch()
    assert run(["dump", "--output", "kafka", str(path)]) == 0
    assert capfdbinary.readouterr().out.startswith(b"Dumping " + os.fsencode(path) + b"\n")
