"""What is a broker's directory is refused as a target, and what is not is left to its owner."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.small_log import file_of, tree, write_small_log
from tiersnap.jobs.commands.demo import make_room
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.lock import locked
from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir

pytestmark = pytest.mark.unit


def refused(path: Path) -> bool:
    try:
        refuse_log_dir(path, "--out")
    except UsageError:
        return True
    return False


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log directory without any of the files that brokers keep at its top."""
    directory = tmp_path / "disk"
    directory.mkdir()
    write_partition(directory, "orders", 0, {0: [data_batch(0, 10)]})
    for path in directory.iterdir():
        if path.is_file():
            path.unlink()
    return directory


def test_a_log_directory_and_all_below_it_are_refused(log_dir: Path) -> None:
    for path in ("", "new", "orders-0", "orders-0/new", "a/b/c"):
        assert refused(log_dir / path), path


def test_a_link_into_a_log_directory_is_refused(log_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to(log_dir)
    assert refused(tmp_path / "innocent")
    assert refused(tmp_path / "innocent" / "new")
    assert refused(tmp_path / "beside" / ".." / "disk")


@pytest.mark.parametrize(
    "name", ["meta.properties", "replication-offset-checkpoint", ".kafka_cleanshutdown", "cleaner-offset-checkpoint"]
)
def test_an_empty_log_directory_is_known_by_what_a_broker_keeps_at_its_top(name: str, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / name).touch()
    assert refused(tmp_path / "disk")
    assert refused(tmp_path / "disk" / "new")


@pytest.mark.parametrize("name", [".lock", "00000000000000000042.log"])
def test_a_lock_or_a_segment_marks_the_directory_that_was_named_and_none_below_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / name).touch()
    assert refused(tmp_path / "disk")
    assert not refused(tmp_path / "disk" / "new")


def test_what_we_write_elsewhere_is_no_log_directory(tmp_path: Path) -> None:
    out = tmp_path / "out" / "orders-0"
    out.mkdir(parents=True)
    (out / "00000000000000000010.snapshot").touch()
    tier = tmp_path / "tier" / "kafka-tiered-storage" / "orders-0-AAAAAAAAAAAAAAAAAAAAAQ"
    tier.mkdir(parents=True)
    (tier / "00000000000000000000-AAAAAAAAAAAAAAAAAAAAAg.log").touch()
    assert not refused(tmp_path / "out")
    assert not refused(tmp_path / "tier")
    assert not refused(tmp_path / "not" / "there")
    assert not refused(tmp_path)


def test_the_refusal_names_what_would_be_written_and_where(log_dir: Path) -> None:
    with pytest.raises(UsageError, match=r"the report .*new.* broker's log"):
        refuse_log_dir(log_dir / "new", "the report")


@pytest.mark.parametrize("where", ["disk", "disk/new", "disk/orders-0", "innocent/new"])
def test_repair_writes_into_no_log_directory_past_apply_and_lock(log_dir: Path, tmp_path: Path, where: str) -> None:
    (tmp_path / "innocent").symlink_to(log_dir)
    before = tree(log_dir)
    assert_said(tiersnap("repair", log_dir, "--out", tmp_path / where), 2, "--out", "a broker's log")
    assert tree(log_dir) == before


@pytest.mark.parametrize("where", ["disk", "disk/new", "disk/orders-0", "innocent/new"])
@pytest.mark.parametrize("is_uri", [False, True])
def test_no_table_is_written_into_a_log_directory(log_dir: Path, tmp_path: Path, where: str, is_uri: bool) -> None:
    """What `run`, `decode` and `maintain tables` ask for before they touch a warehouse."""
    (tmp_path / "innocent").symlink_to(log_dir)
    before = tree(log_dir)
    warehouse = (tmp_path / where).as_uri() if is_uri else str(tmp_path / where)
    with pytest.raises(UsageError, match=r"the warehouse .* is a broker's log directory"), only_run(warehouse, "run"):
        pass
    assert tree(log_dir) == before


WRITERS = {
    "remote storage": ("tier", "LOGS", "--remote", "LOGS"),
    "a report": ("tier", "LOGS", "--remote", "ELSEWHERE", "--report", "LOGS"),
    "a collection": ("collect", "LOGS", "--to", "LOGS"),
}


@pytest.mark.parametrize("what", WRITERS)
def test_nothing_but_snapshots_is_ever_written_into_a_log_directory(log_dir: Path, tmp_path: Path, what: str) -> None:
    write_small_log(tmp_path / "other")
    assert tiersnap("tier", tmp_path / "other", "--remote", tmp_path / "tier", "--apply").exit_code == 0
    before = tree(log_dir)
    words = [word.replace("LOGS", str(log_dir)).replace("ELSEWHERE", str(tmp_path / "tier")) for word in WRITERS[what]]
    tiersnap(*words)
    assert_said(tiersnap(*words, "--apply"), 2, "a broker's log")
    assert tree(log_dir) == before


@pytest.mark.parametrize("name", ["meta.properties", "orders.prom", "orders-0/orders.prom"])
def test_metrics_are_not_written_over_what_is_none_of_ours(log_dir: Path, tmp_path: Path, name: str) -> None:
    before = tree(log_dir)
    assert_said(tiersnap("scan", log_dir, "--metrics-file", log_dir / name), 2, "--metrics-file")
    assert tree(log_dir) == before
    other = tmp_path / "node.prom"
    other.write_text("# HELP node_load1 1m load average.\n")
    assert_said(tiersnap("scan", log_dir, "--metrics-file", other), 2, "another program wrote it")
    assert other.read_text().startswith("# HELP node_load1")


def test_an_index_that_is_a_link_is_not_uploaded(tmp_path: Path) -> None:
    """As root on another user's directory: what lies behind it is nobody's business."""
    folder = write_small_log(tmp_path / "logs")
    secret = tmp_path / "secret"
    secret.write_bytes(b"the-key-of-the-kingdom" * 100)
    for suffix in (".index", ".timeindex", ".txnindex"):
        path = file_of(folder, 5, suffix)
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
    ran = tiersnap("tier", tmp_path / "logs", "--remote", tmp_path / "remote", "--apply")
    assert str(file_of(folder, 5, ".index")) in ran.err
    sent = [path.read_bytes() for path in (tmp_path / "remote").rglob("*") if path.is_file()]
    assert len(list((tmp_path / "remote").rglob("*.rsm-manifest"))) == 3, "it is made again from the segment"
    assert not any(b"the-key-of-the-kingdom" in data for data in sent)


@pytest.mark.parametrize("uri", ["s3://b/x", "file:///tmp/x", "hdfs://a/b", "s3:x"])
def test_a_uri_is_no_folder_of_the_local_disk(
    log_dir: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    for words in (
        ("repair", log_dir, "--out", uri),
        ("tier", log_dir, "--remote", "there", "--report", uri),
        ("scan", log_dir, "--report", uri),
        ("scan", log_dir, "--metrics-file", uri),
    ):
        assert_said(tiersnap(*words), 2, "is a URI")
    assert sorted(tmp_path.iterdir()) == before


def test_the_demo_deletes_only_what_a_demo_left(log_dir: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("x")
    assert_said(tiersnap("demo", "--to", theirs), 2, "contains files that no demo made: thesis.tex")
    assert_said(tiersnap("demo", "--to", log_dir), 2, "a broker's log")
    assert (theirs / "thesis.tex").read_text() == "x"

    ours = tmp_path / "ours"
    make_room(ours)
    (ours / "warehouse").mkdir()
    make_room(ours)
    assert not (ours / "warehouse").exists()
    (ours / "my-notes.txt").write_text("x")
    with pytest.raises(UsageError, match=r"my-notes\.txt"):
        make_room(ours)
    (ours / "my-notes.txt").unlink()
    (tmp_path / "link").symlink_to(ours)
    with pytest.raises(UsageError):
        make_room(tmp_path / "link")


@pytest.mark.parametrize("there", [True, False])
def test_a_lock_that_is_a_link_is_neither_followed_nor_made_elsewhere(
    log_dir: Path, tmp_path: Path, there: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    if there:
        elsewhere.write_text("x")
    (log_dir / ".lock").symlink_to(elsewhere)
    assert_said(tiersnap("repair", log_dir, "--apply"), 2, ".lock", "a symbolic link")
    assert elsewhere.exists() == there


def test_a_lock_that_is_a_fifo_is_refused_and_does_not_hang(log_dir: Path) -> None:
    os.mkfifo(log_dir / ".lock")
    with pytest.raises(UsageError, match="a FIFO"), locked(log_dir):
        pass
