"""A call ends in time, whatever the server does: each by its own limit, all of them by the deadline of the whole."""

import io
import os
import shutil
import ssl
import subprocess
import threading

import pytest

from tests.s3.conftest import settings_for
from tests.s3.trickling_server import TricklingServer
from tiersnap.remote_storage.stores.object_store import UnfinishedUpload
from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.errors import ExitCode, TransientError

pytestmark = pytest.mark.s3

LIMIT = 0.4  # seconds
USES = {
    "get": lambda store: store.get("key"),
    "read": lambda store: store.read("key"),
    "get_range": lambda store: store.get_range("key", 0, 10_000),
    "head": lambda store: store.head("key"),
    "list": lambda store: list(store.list()),
    "put_if_absent": lambda store: store.put_if_absent("key", b"x"),
    "put_file_if_absent": lambda store: store.put_file_if_absent("key", io.BytesIO(b"x"), 1),
    "replace": lambda store: store.replace("key", b"x"),
    "replace_if": lambda store: store.replace_if("key", b"x", '"etag"'),
    "unfinished_uploads": lambda store: list(store.unfinished_uploads()),
    "abort_upload": lambda store: store.abort_upload(UnfinishedUpload("key", "id", 0)),
}
HOW = [("silent", False), ("headers", False), ("body", False), ("body", True)]
WITHOUT_BODY = {"head", "abort_upload"}


def slow_store(server: TricklingServer, **changes: object) -> S3Store:
    # The server is never silent for so long, and would be asked again and again.
    store = S3Store("bucket", "", settings_for(server.url, **{"read_timeout": 20.0, "total_attempts": 5, **changes}))
    assert store.client  # takes a while to make, which is not the server's fault
    return store


def assert_gives_up(use, store: S3Store, server: TricklingServer | None = None) -> None:
    """Fail if the call does not name its limit, or if it waited until the server ended."""
    with pytest.raises(TransientError, match=rf"not finished within {LIMIT}\d* s") as raised:
        use(store)
    assert server is None or not server.outlasted.is_set()
    assert raised.value.exit_code is ExitCode.TRANSIENT


@pytest.mark.parametrize(("how", "close"), HOW, ids=[how + "-close" * close for how, close in HOW])
@pytest.mark.parametrize("use", [name for name in USES if name not in {"get", "get_range", "read"}])
def test_a_call_has_a_limit_of_its_own(how, close, use):
    if how == "body" and use in WITHOUT_BODY:
        pytest.skip("its answer has no body")
    with TricklingServer(how, close=close) as server:
        store = slow_store(server, call_timeout=LIMIT)
        assert_gives_up(USES[use], store, server)
        assert server.requests <= 1  # 0 where the limit is over before the request has arrived


@pytest.mark.parametrize(("how", "close"), HOW, ids=[how + "-close" * close for how, close in HOW])
@pytest.mark.parametrize("use", sorted(USES))
def test_the_deadline_of_the_whole_ends_a_call(how, close, use):
    if how == "body" and use in WITHOUT_BODY:
        pytest.skip("its answer has no body")
    with TricklingServer(how, close=close) as server:
        store = slow_store(server)
        with Deadline(LIMIT):
            assert_gives_up(USES[use], store, server)


@pytest.mark.parametrize("how", ["silent", "headers", "body"])
def test_what_cannot_be_deleted_in_time_is_reported(how):
    with TricklingServer(how) as server:
        failures = slow_store(server, call_timeout=LIMIT).delete(["a", "b"])
        assert [failure.key for failure in failures] == ["a", "b"]
        assert all("not finished within" in failure.reason for failure in failures)


def test_a_large_body_has_more_time_and_still_an_end():
    with TricklingServer("body") as server:
        store = slow_store(server, call_timeout=LIMIT)
        with pytest.raises(TransientError, match=r"not finished within [34]\."):
            store.get("key")  # 1,000,000 bytes at 256 KiB/s are 3.8 s
        assert not server.outlasted.is_set()


def test_a_server_that_takes_no_bytes_does_not_hold_an_upload_up():
    data = os.urandom(MIN_PART_SIZE)
    with TricklingServer("deaf") as server:
        store = slow_store(server)
        with Deadline(LIMIT):
            assert_gives_up(lambda store: store.put_file_if_absent("key", io.BytesIO(data), len(data)), store, server)


@pytest.fixture
def tls(tmp_path, monkeypatch) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 that the client trusts."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    names = tmp_path / "key.pem", tmp_path / "certificate.pem"
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    subprocess.run([*command, "-keyout", names[0], "-out", names[1]], check=True, capture_output=True)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(names[1]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(names[1], names[0])
    return context


@pytest.mark.parametrize("use", ["get", "list", "put_if_absent"])
@pytest.mark.parametrize(("how", "close"), HOW, ids=[how + "-close" * close for how, close in HOW])
def test_over_tls_a_call_ends_in_time_as_well(tls, how, close, use):
    with TricklingServer(how, close=close, tls=tls) as server:
        store = slow_store(server)
        with Deadline(LIMIT):
            assert_gives_up(USES[use], store, server)
        assert server.requests <= 1  # 0 where the limit is over before the request has arrived


def test_a_handshake_that_does_not_end_is_cut(tls):
    with TricklingServer("deaf") as server:
        server.url = server.url.replace("http:", "https:")  # it says nothing, not even this
        store = slow_store(server, connect_timeout=20.0)
        with Deadline(LIMIT):
            assert_gives_up(USES["head"], store, server)


def test_an_upload_in_parts_obeys_the_deadline_that_it_is_given(proxy, bucket):
    data = os.urandom(2 * MIN_PART_SIZE)
    stall = proxy.when(lambda method, path: "partNumber=" in path, "stall", seconds=20)
    store = S3Store(bucket, "", settings_for(proxy.url, read_timeout=20.0))
    assert_gives_up(
        lambda store: store.put_file_if_absent("key", io.BytesIO(data), len(data), deadline=Deadline(LIMIT)), store
    )
    assert list(store.unfinished_uploads()) == []
    assert not stall.outlasted


def test_the_deadline_of_one_thread_is_not_that_of_another(s3_store):
    s3_store.put_if_absent("key", b"x")
    found: list[bytes] = []
    with Deadline(0):
        thread = threading.Thread(target=lambda: found.append(s3_store.get("key")))
        thread.start()
        thread.join()
    assert found == [b"x"]


def test_the_earliest_of_nested_deadlines_counts(s3_store):
    with Deadline(0), Deadline(60), pytest.raises(TransientError, match="within 0 s"):
        s3_store.head("key")
    with Deadline(60):
        assert s3_store.head("key") is None


def test_after_a_call_was_cut_the_next_one_works(proxy, s3_store, bucket):
    s3_store.put_if_absent("key", b"x")
    store = S3Store(bucket, "some/prefix/", settings_for(proxy.url, read_timeout=20.0))
    proxy.when(lambda method, path: True, "stall", seconds=2, times=1)
    with Deadline(LIMIT):
        assert_gives_up(lambda store: store.head("key"), store)
    assert store.get("key") == b"x"
