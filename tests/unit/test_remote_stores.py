import errno
import hashlib
import io
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import write_small_log
from tiersnap.remote_storage.errors import InvalidKeyError
from tiersnap.remote_storage.stores.directory_files import UNFINISHED, UnfinishedFolder
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import UnfinishedUpload
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.stores.s3_put import (
    etag_of_parts,
    extend,
    is_proved,
    request_checksum,
    to_text,
)
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE, Checksums, S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.errors import (
    ExitCode,
    LogDirAsTargetError,
    NoSpaceError,
    RemoteStorageError,
    TiersnapError,
    TransientError,
    UsageError,
)
from tiersnap.snapshot.installed import with_extra
from tiersnap.snapshot.log.log_dir import open_log_dir

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
    store = open_store(uri, StoreSettings(S3Settings(region="eu-north-1")))
    assert store == S3Store(bucket, prefix, S3Settings(region="eu-north-1"))
    assert store.uri == f"s3://{bucket}/{prefix}"


def test_directories_are_named_by_uri_or_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = DirectoryStore(tmp_path / "some dir")
    for uri in (
        str(tmp_path / "some dir"),
        "./some dir",
        f"../{tmp_path.name}/./some dir",
        f"file://{tmp_path}/some%20dir",
        f"{tmp_path}/some dir/",
    ):
        assert Path(os.path.normpath(open_store(uri).root)) == expected.root
    assert open_store(".") == DirectoryStore(tmp_path)
    assert open_store("file:///a%20b?c#d").root == Path("/a b?c#d")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/some dir") == expected
    assert expected.uri == f"file://{tmp_path}/some%20dir/"


@pytest.mark.parametrize(
    "uri",
    [
        "gs://bucket/x",
        "s3a://bucket/x",
        "ftp://host/x",
        "hdfs://host/x",
        "s3:///x",
        "file://host/x",
        "",
        "s3:bucket",
        "file:x",
        "/a\x00b",
        "://",
        "file://[",
        "~nobody-of-this-name/x",
        "bucket",
        "bucket/x",
        ".hidden/x",
    ],
)
def test_other_places_are_refused_with_the_list_of_known_ones(uri):
    with pytest.raises(UsageError) as raised:
        open_store(uri)
    assert "s3://bucket/prefix, file:///directory, /directory, ./directory or ~/directory" in raised.value.hint


@pytest.mark.parametrize(
    "uri",
    [
        "gs://bucket/x",
        "gs://user:SeCrEt@bucket/x",
        "abfss://container@account.dfs.core.windows.net/x",
        "abfs://container@account.dfs.core.windows.net/x",
        "wasbs://container@account.blob.core.windows.net/x",
    ],
)
@pytest.mark.parametrize("open_it", [open_store, open_log_dir])
def test_a_cloud_that_is_not_supported_yet_is_named(open_it, uri):
    """The container before the @ is no password; pyarrow would wait for a server, or fail with its own error."""
    with pytest.raises(UsageError) as raised:
        open_it(uri)
    scheme, cloud = uri.partition("://")[0], "Google Cloud Storage" if uri.startswith("gs") else "Azure"
    assert raised.value.message.startswith(f"{scheme}://: {cloud}")
    assert raised.value.message.endswith("is not supported yet")
    assert "SeCrEt" not in raised.value.message


def test_a_bucket_whose_scheme_was_forgotten_does_not_become_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"did you mean s3://bucket/x, or \./bucket/x\?"):
        open_store("bucket/x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA123:SeCrEt@bucket/x",
        "s3://AKIA123:SeC/rEt@bucket/x",
        "s3://AKIA123@bucket/x",
        "file://user:SeCrEt@host/x",
        "user:SeCrEt@bucket/x",
        "user:SeC/rEt@bucket/x",
        "s3:/user:SeCrEt@bucket",
        "://user:SeCrEt@bucket",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_repeated(uri):
    with pytest.raises(UsageError) as raised:
        open_store(uri)
    said = f"{raised.value.as_dict()} {raised.value!r}"
    assert not any(part in said for part in ("SeC", "rEt", "AKIA123"))
    assert "before the @" in raised.value.message


def test_credentials_in_an_endpoint_are_refused_and_not_repeated():
    with pytest.raises(UsageError) as raised:
        S3Settings(endpoint_url="https://user:SeCrEt@host:9000/x")
    assert "SeCrEt" not in f"{raised.value.as_dict()} {raised.value!r}"
    S3Settings(endpoint_url="http://host:9000/a@b")


def test_an_at_sign_in_a_folder_is_no_password():
    assert open_store("s3://bucket/a@b").prefix == "a@b/"
    assert open_store("s3://bucket/a:b@c").prefix == "a:b@c/"
    assert open_store("/mnt/a:b@c").root == Path("/mnt/a:b@c")
    assert open_store("file:///mnt/a:b@c").root == Path("/mnt/a:b@c")


@pytest.mark.parametrize(
    "mark",
    [
        ".lock",
        "meta.properties",
        "replication-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "orders-0/00000000000000000042.log",
        "00000000000000000042.log",
    ],
)
def test_a_log_directory_is_no_place_for_objects(tmp_path, mark):
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for uri in (str(tmp_path), tmp_path.as_uri(), f"{tmp_path}/link", f"{tmp_path}/sub/.."):
        with pytest.raises(LogDirAsTargetError, match=re.escape(mark)) as raised:
            open_store(uri)
        assert raised.value.exit_code is ExitCode.USAGE


def test_no_more_is_a_folder_inside_a_log_directory(tmp_path):
    (tmp_path / "meta.properties").touch()
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "elsewhere").symlink_to(tmp_path / "orders-0")
    for inside in ("snapshots", "orders-0", "orders-0/deep/er", "elsewhere/x"):
        with pytest.raises(LogDirAsTargetError, match=r"is in .* meta\.properties"):
            open_store(str(tmp_path / inside))


def test_a_store_with_objects_in_it_is_not_taken_for_a_log_directory(tmp_path):
    topic_id = "MWJ6FHTfRYy67jzwZdeqSQ"
    segment = f"00000000000000000042-{topic_id}.log"
    for name in (
        f"orders-{topic_id}/0/{segment}",
        f"kafka-tiered-storage/orders-0-{topic_id}/{segment}",
        f"snapshots/orders-{topic_id}/0/00000000000000000042.snapshot",
        f"claims/orders-{topic_id}/0/00000000000000000042-0.json",
        "backup-2026/notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path.parent / ".lock").touch()  # of who knows what program
    assert open_store(str(tmp_path)) == DirectoryStore(tmp_path)
    assert open_store(str(tmp_path / "kafka-tiered-storage")).uri.endswith("/kafka-tiered-storage/")


@pytest.mark.parametrize("words", [(), ("--apply",)])
def test_tier_refuses_a_file_as_remote_location_in_plan_and_apply(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("mine")
    log_dir = write_small_log(tmp_path / "logs")
    ran = tiersnap("tier", log_dir.parent, "--remote", tmp_path / "file", *words)
    assert_said(ran, 2, "/file: a file, not a directory")


def test_an_s3_uri_without_boto3_names_the_extra():
    code = (
        "import sys; sys.modules['boto3'] = None\n"
        "from tiersnap.remote_storage.stores.open_store import open_store\n"
        "from tiersnap.snapshot.errors import MissingExtraError\n"
        "open_store('/nowhere/x')\n"
        "try:\n    open_store('s3://bucket/x')\n"
        "except MissingExtraError as error:\n    print(error.hint)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.stdout == f"{with_extra('s3')}\n", run.stderr


def test_boto3_is_imported_for_s3_alone():
    code = (
        "import sys\n"
        "import tiersnap.remote_storage.upload.send_objects, tiersnap.remote_storage.layouts.aiven_layout\n"
        "import tiersnap.remote_storage.layouts.local_tiered_storage_layout\n"
        "import tiersnap.remote_storage.remote_log.snapshot_objects\n"
        "from tiersnap.remote_storage.stores.open_store import open_store\n"
        "open_store('/nowhere/x')\n"
        "print('boto3' in sys.modules, 'botocore' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout == "False False\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"part_size": MIN_PART_SIZE - 1},
        {"max_concurrency": 0},
        {"total_attempts": 0},
        {"read_timeout": 0.0},
        {"call_timeout": 0.0},
    ],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(UsageError):
        S3Settings(**changes)


def test_parts_grow_with_the_object_so_that_there_are_never_too_many():
    settings = S3Settings()
    assert settings.part_size_for(1 << 30) == 16 << 20
    assert -(-(5 << 40) // settings.part_size_for(5 << 40)) <= 10_000


def test_the_etag_of_an_object_in_parts_says_which_parts():
    parts = [hashlib.md5(data).hexdigest() for data in (b"one", b"two")]
    whole = hashlib.md5(b"".join(map(bytes.fromhex, parts))).hexdigest()
    assert etag_of_parts(parts) == etag_of_parts(f'"{part}"' for part in parts) == f"{whole}-2"
    assert etag_of_parts(reversed(parts)) != f"{whole}-2"
    assert etag_of_parts(["encrypted by KMS"]) is None


def test_an_answer_proves_bytes_by_their_crc_or_their_md5_and_by_nothing_else():
    aws, compat = (request_checksum(kind, b"bytes", extend(0, b"bytes")) for kind in (Checksums.AWS, Checksums.COMPAT))
    md5, crc = hashlib.md5(b"bytes").hexdigest(), extend(0, b"bytes")
    assert is_proved({"ChecksumCRC32C": to_text(crc), "ETag": "x"}, crc, aws)
    assert is_proved({"ETag": f'"{md5}"'}, crc, compat)
    for answer, sent in (({}, aws), ({}, compat), ({"ETag": '""'}, aws), ({"ETag": "x"}, compat)):
        assert not is_proved(answer, crc, sent)
    assert not is_proved({"ChecksumCRC32C": to_text(crc ^ 1)}, crc, aws)


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
    assert list(store.unfinished_uploads()) == []


def test_what_was_left_has_an_age_by_the_clock_of_the_file_system(store, monkeypatch):
    store.put_if_absent("key", b"")
    left = store.root / UNFINISHED / f"tiersnap-{'0' * 32}.a.log"
    left.touch()
    monkeypatch.setattr("time.time_ns", lambda: 0)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert 0 <= next(store.unfinished_uploads()).age < 5000
    os.utime(left, (1, 1))
    found = next(store.unfinished_uploads())
    assert (found.key, found.started) == ("a.log", 1000)
    assert found.age > 56 * 365 * 86_400_000


@pytest.mark.parametrize("name", ["notes.txt", "tiersnap-x.log", f"tiersnap-{'0' * 31}.a", f"x-tiersnap-{'0' * 32}.a"])
def test_what_does_not_bear_our_mark_is_neither_listed_nor_removed(store, name):
    store.put_if_absent("key", b"")
    theirs = store.root / UNFINISHED / name
    theirs.touch()
    assert list(store.unfinished_uploads()) == []
    for upload_id in (name, f"../{UNFINISHED}/{name}", f"../../{store.root.name}/{UNFINISHED}/{name}", "lock"):
        store.abort_upload(UnfinishedUpload("x", upload_id, 0))
    assert theirs.exists()


# --- what lies in a store and is no object


def uses(store: DirectoryStore, key: str) -> list:
    return [
        lambda: store.get(key),
        lambda: store.read(key),
        lambda: store.get_range(key, 0, 1),
        lambda: store.put_if_absent(key, b"mine"),
        lambda: store.put_file_if_absent(key, io.BytesIO(b"mine"), 4),
        lambda: store.replace_if(key, b"mine", "etag"),
    ]


def test_no_symlink_in_a_store_is_followed(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store.put_if_absent("folder/key", b"object")
    (store.root / "file").symlink_to(outside / "secret")
    (store.root / "linked").symlink_to(outside)
    for key in ("file", "linked/secret", "linked/new", "linked/deep/new"):
        for use in uses(store, key):
            with pytest.raises(TiersnapError):
                use()
    for key in ("linked/secret", "linked/new"):
        with pytest.raises(RemoteStorageError) as raised:
            store.put_if_absent(key, b"mine")
        assert "symlink" in raised.value.hint or "directory" in raised.value.message
        assert store.head(key) is None
        assert store.delete([key]) == ()
        with pytest.raises(RemoteStorageError):
            store.replace(key, b"mine")
    assert [found.key for found in store.list()] == ["folder/key"]
    assert list(store.list("linked/")) == []
    assert store.delete(["file"]) == ()  # the link itself goes
    assert [(path.name, path.read_bytes()) for path in outside.iterdir()] == [("secret", b"secret")]
    assert list(store.unfinished_uploads()) == []


def test_a_read_only_mount_is_said_to_be_one(store, monkeypatch):
    """The hint was to check the owner and the mode."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(RemoteStorageError, match="Read-only file system") as raised:
            store.put_if_absent("a/key", b"mine")
    assert "mounted read-only" in raised.value.hint


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "fsync", "link", "rename"])
def test_a_full_disk_is_said_to_be_one_wherever_it_is_met(store, monkeypatch, call, code):
    store.put_if_absent("a/key", b"object")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(NoSpaceError, match=os.strerror(code)):
            store.replace("a/key", b"mine") if call == "rename" else store.put_if_absent("a/other", b"mine")
    assert [found.key for found in store.list()] == ["a/key"]
    store.replace("a/key", b"mine")
    store.put_if_absent("a/other", b"mine")


def test_list_passes_by_lost_and_found_where_a_disk_is_the_store(store):
    store.put_if_absent("z/object", b"")
    (store.root / "lost+found").mkdir()
    (store.root / "lost+found" / "#17").write_bytes(b"root's")
    assert [info.key for info in store.list()] == ["z/object"]


def test_a_symlink_that_is_replaced_is_replaced_itself(store, tmp_path):
    (tmp_path / "outside").write_bytes(b"theirs")
    store.put_if_absent("other", b"")
    (store.root / "key").symlink_to(tmp_path / "outside")
    store.replace("key", b"mine")
    assert (store.get("key"), (tmp_path / "outside").read_bytes()) == (b"mine", b"theirs")


@pytest.mark.parametrize("what", ["folder", "lock"])
def test_where_files_are_made_no_symlink_is_followed_either(store, tmp_path, what):
    outside = tmp_path / "outside"
    outside.mkdir()
    store.put_if_absent("key", b"object")
    if what == "folder":
        shutil.rmtree(store.root / UNFINISHED)
        (store.root / UNFINISHED).symlink_to(outside)
    else:
        (store.root / UNFINISHED / "lock").symlink_to(outside / "made")
    with pytest.raises(RemoteStorageError):
        store.replace("key", b"mine")
    assert [failure.key for failure in store.delete(["key"])] == ["key"]
    assert store.get("key") == b"object"
    assert list(outside.iterdir()) == []


def test_the_store_itself_may_be_named_by_a_symlink(store, tmp_path):
    store.put_if_absent("key", b"object")
    (tmp_path / "named").symlink_to(store.root)
    assert DirectoryStore(tmp_path / "named").get("key") == b"object"


def test_a_fifo_or_a_socket_is_no_object_and_is_not_waited_for(store):
    store.put_if_absent("key", b"object")
    os.mkfifo(store.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(store.root)  # the path of a socket is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        for key in ("fifo", "socket"):
            for use in uses(store, key):
                with pytest.raises(RemoteStorageError):
                    use()
    assert [found.key for found in store.list()] == ["key"]


def test_a_lock_that_is_held_for_too_long_is_transient(store):
    etag = store.put_if_absent("key", b"before").etag
    with UnfinishedFolder(store.root).locked(), Deadline(0.05):
        with pytest.raises(TransientError, match="lock"):
            store.replace_if("key", b"after", etag)
        assert store.delete(["key"])[0].key == "key"
    assert store.get("key") == b"before"
    assert store.replace_if("key", b"after", etag).outcome.is_ours


def test_a_writer_that_is_killed_while_it_holds_the_lock_gives_it_up(store):
    etag = store.put_if_absent("key", b"before").etag
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from tiersnap.remote_storage.stores.directory_store import DirectoryStore\n"
        "os.rename = lambda *names, **folders: os._exit(9)\n"
        "DirectoryStore(Path(sys.argv[1])).replace_if('key', b'lost', sys.argv[2])\n"
    )
    assert subprocess.run([sys.executable, "-c", code, store.root, etag], cwd=ROOT, check=False).returncode == 9
    assert [upload.key for upload in store.unfinished_uploads()] == ["key"]
    assert store.replace_if("key", b"after", etag).outcome.is_ours
    assert store.get("key") == b"after"


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
