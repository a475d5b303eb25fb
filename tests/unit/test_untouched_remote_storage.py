"""What commands leave as it is in remote storage: all of it when they plan, and objects of other names always."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.reference.command import Ran, assert_said, tiersnap
from tests.reference.left_over import CLUSTER, DAY, finished, make_old, tier_ours
from tests.reference.planned import PARTITION
from tests.reference.restoring import new_disk
from tests.reference.tiered import age
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.stores.directory_store import DirectoryStore

pytestmark = pytest.mark.unit

AS_OF = ("--now", "2026-11-21T13:00:00Z")
OTHER_NAME = f"{keys.partition_claims(PARTITION)}expire.json"
"""An object beside claims that this tiersnap does not write; another one may have."""


@pytest.fixture
def archive(layout: Layout, tmp_path: Path) -> DirectoryStore:
    """Three segments of ours, [0, 5), [5, 10) and [10, 15), two days old."""
    store = DirectoryStore(tmp_path / "remote")
    tier_ours(store, layout, tmp_path / "logs")
    make_old(store)
    return store


def times_in(folder: Path) -> dict[str, int]:
    """When each file and folder was last changed: a folder is when a file in it was made, and removed again."""
    return {str(path): path.lstat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("is_there", [False, True], ids=["", "the folder is there"])
def test_a_plan_leaves_the_directory_as_it_is_to_the_last_time_stamp(
    archive: DirectoryStore, layout: Layout, tmp_path: Path, is_there: bool
) -> None:
    if not is_there:
        shutil.rmtree(archive.root / ".tiersnap-unfinished")
    (first, *_) = finished(archive, layout)
    archive.root.joinpath(layout.object_keys(first)[-1]).unlink()
    shutil.rmtree(archive.root / "claims")
    before = times_in(archive.root)
    assert_said(tiersnap("tier", tmp_path / "logs", "--remote", archive.root, "--layout", layout.name), 4)
    assert times_in(archive.root) == before


@pytest.mark.parametrize(
    "content", [b"{", b'{"version":1,"logStartOffset":10,"deleting":[]}'], ids=["damaged", "whole"]
)
def test_an_object_of_another_name_beside_claims_changes_no_command(
    archive: DirectoryStore, layout: Layout, tmp_path: Path, content: bytes
) -> None:
    disk, place = new_disk(tmp_path / "disk", CLUSTER), ("--remote", archive.root)
    commands = (
        ("tier", tmp_path / "logs", *place, "--layout", layout.name, *AS_OF, "--apply"),
        ("verify", *place, "--layout", layout.name, "--depth", "full", *AS_OF),
        ("restore", *place, "--to", disk, "--topic", "orders", "--unpublished"),
    )

    def run() -> list[Ran]:
        return [tiersnap(*words) for words in commands]

    before = [(ran.exit_code, ran.rows) for ran in run()]
    assert [code for code, _ in before] == [0] * len(commands)
    archive.put_if_absent(OTHER_NAME, content)
    age(archive, OTHER_NAME, 2 * DAY)
    after = run()
    assert [(ran.exit_code, ran.rows) for ran in after] == before
    assert not [ran.err for ran in after if "expire" in ran.err]
    assert archive.get(OTHER_NAME) == content
