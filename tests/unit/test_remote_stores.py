import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import UnfinishedUpload
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE, S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.stores.unfinished import UNFINISHED
from tiersnap.snapshot.errors import RemoteStorageError, TransientError, UsageError

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


# --- from a URI to a store


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://bucket/a/b", "bucket", "a/b/"),
        ("s3://bucket/a/b/", "bucket", "a/b/"),
        ("s3://bucket/a#b?c", "bucket", "a#b?c/"),
    ],
)
def test_the_path_of_an_s3_uri_is_a_folder_with_or_without_a_slash(uri, bucket, prefix):
    store = open_store(uri, S3Settings(region="eu-north-1"))
    assert store == S3Store(bucket, prefix, S3Settings(region="eu-north-1"))
    assert store.uri == f"s3://{bucket}/{prefix}"


def test_directories_are_named_by_uri_or_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = DirectoryStore(tmp_path / "some dir")
    for uri in (str(tmp_path / "some dir"), "some dir", f"file://{tmp_path}/some%20dir", f"{tmp_path}/some dir/"):
        assert open_store(uri) == expected
    assert expected.uri == f"file://{tmp_path}/some%20dir/"


@pytest.mark.parametrize(
    "uri", ["gs://bucket/x", "s3a://bucket/x", "hdfs://host/x", "s3:///x", "file://host/x", "", "s3:bucket", "file:x"]
)
def test_other_places_are_refused_with_the_list_of_known_ones(uri):
    with pytest.raises(UsageError) as raised:
        open_store(uri)
    assert "s3://bucket/prefix, file:///directory, or a path" in raised.value.hint


def test_an_s3_uri_without_boto3_names_the_extra():
    code = (
        "import sys; sys.modules['boto3'] = None\n"
        "from tiersnap.remote_storage.stores.open_store import open_store\n"
        "from tiersnap.snapshot.errors import MissingExtraError\n"
        "open_store('/tmp')\n"
        "try:\n    open_store('s3://bucket/x')\n"
        "except MissingExtraError as error:\n    print(error.hint)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.stdout == "pip install 'tiersnap[s3]'\n", run.stderr


def test_boto3_is_imported_for_s3_alone():
    code = (
        "import sys\n"
        "import tiersnap.remote_storage.upload.uploader, tiersnap.remote_storage.layouts.aiven_layout\n"
        "import tiersnap.remote_storage.layouts.local_tiered_storage_layout\n"
        "import tiersnap.remote_storage.snapshot_objects\n"
        "from tiersnap.remote_storage.stores.open_store import open_store\n"
        "open_store('/tmp')\n"
        "print('boto3' in sys.modules, 'botocore' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout == "False False\n"


@pytest.mark.parametrize(
    "changes",
    [{"part_size": MIN_PART_SIZE - 1}, {"max_concurrency": 0}, {"total_attempts": 0}, {"read_timeout": 0.0}],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(UsageError):
        S3Settings(**changes)


def test_parts_grow_with_the_object_so_that_there_are_never_too_many():
    settings = S3Settings()
    assert settings.part_size_for(1 << 30) == 16 << 20
    assert -(-(5 << 40) // settings.part_size_for(5 << 40)) <= 10_000


# --- what is a directory's own; the rest is in tests/s3/test_object_store_contract.py


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store")


@pytest.mark.parametrize("key", ["", "/etc/x", "../x", "a/../../x", "a//b", "a/./b", "a/", "a\0b", f"{UNFINISHED}/x"])
def test_keys_cannot_leave_the_directory(store, key):
    for use in (store.get, store.head, lambda k: store.put_if_absent(k, b""), lambda k: store.delete([k])):
        with pytest.raises(InvalidKeyError):
            use(key)
    assert not store.root.exists()


@pytest.mark.parametrize("prefix", ["/", "/etc/", "../", "a/../../"])
def test_listings_cannot_leave_the_directory(store, prefix):
    with pytest.raises(InvalidKeyError):
        list(store.list(prefix))


def test_a_reader_never_sees_half_a_file(store):
    seen = []

    class Watched(io.BytesIO):
        def read(self, size=-1, /):
            seen.append([found.key for found in store.list()])
            return super().read(size)

    store.put_file_if_absent("key", Watched(bytes(3 << 20)), 3 << 20)
    assert seen == [[]] * len(seen)
    assert len(seen) >= 3
    assert [found.key for found in store.list()] == ["key"]


def test_what_a_killed_process_left_is_listed_and_dropped(store):
    code = (
        "import os, io, sys\nfrom pathlib import Path\n"
        "from tiersnap.remote_storage.stores.directory_store import DirectoryStore\n"
        "class Killed(io.BytesIO):\n"
        "    def read(self, size=-1, /):\n"
        "        if self.tell(): os._exit(9)\n"
        "        return super().read(size)\n"
        "DirectoryStore(Path(sys.argv[1])).put_file_if_absent('a/b.log', Killed(bytes(2 << 20)), 2 << 20)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, store.root], cwd=ROOT, check=False)
    assert run.returncode == 9
    assert list(store.list()) == []
    left = list(store.unfinished_uploads())
    assert [(upload.key, upload.started > 0) for upload in left] == [("b.log", True)]
    store.abort_upload(left[0])
    store.abort_upload(left[0])
    store.abort_upload(UnfinishedUpload("x", "../../../etc/x", 0))
    assert list(store.unfinished_uploads()) == []


def test_a_directory_that_may_not_be_written_is_named(store, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with pytest.raises(RemoteStorageError, match="file"):
        DirectoryStore(blocked).put_if_absent("key", b"")
    store.put_if_absent("a", b"")
    with pytest.raises(RemoteStorageError, match="a/b"):
        store.put_if_absent("a/b", b"")
    assert store.head("a/b") is None
    assert store.delete(["a/b"]) == ()


def test_a_failing_disk_is_transient(store):
    class Failing(io.BytesIO):
        def read(self, size=-1, /):
            raise OSError(5, os.strerror(5))

    with pytest.raises(TransientError, match="Input/output error"):
        store.put_file_if_absent("key", Failing(), 10)
    assert list(store.unfinished_uploads()) == []


def test_files_are_plain_files_that_others_may_read(store):
    store.put_if_absent("a/b", b"x")
    mode = (store.root / "a" / "b").stat().st_mode
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(mode) == 0o666 & ~umask
