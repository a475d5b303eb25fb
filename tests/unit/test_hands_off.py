"""What is a broker's directory is refused as a target, and what is not is left to its owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.log_builder import data_batch, write_partition
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.hands_off import refuse_log_dir

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
