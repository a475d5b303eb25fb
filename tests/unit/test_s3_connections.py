"""A deadline reaches connections by no public way of botocore: boto3 is allowed up to a version tested here."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tiersnap.remote_storage.stores.s3_call import _Watched
from tiersnap.remote_storage.stores.s3_client import _timestamp, client_of
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.errors import CorruptDataError

pytestmark = pytest.mark.unit

SETTINGS = S3Settings(endpoint_url="http://127.0.0.1:9", region="us-east-1")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("proxy", [None, "http://127.0.0.1:8"])
def test_client_makes_connections_that_a_deadline_can_cut(scheme, proxy):
    session = client_of(SETTINGS)._endpoint.http_session
    manager = session._get_connection_manager(f"{scheme}://127.0.0.1:9", proxy)
    pool = manager.connection_from_url(f"{scheme}://127.0.0.1:9")
    assert issubclass(pool.ConnectionCls, _Watched)


class SentError(Exception):
    """The request is complete, and nobody needs to answer it."""


@pytest.mark.parametrize(("size", "expects"), [(10, None), (1 << 20, None), (2 << 20, b"100-continue")])
def test_client_sends_a_small_body_with_its_request(monkeypatch, size, expects):
    """Who waits for "100 Continue" waits as long again as for the answer."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    client = client_of(replace(SETTINGS, region=f"us-east-{size}"))

    def record(request, **_):
        raise SentError(request.headers.get("Expect"))

    client.meta.events.register("before-send.s3", record)
    with pytest.raises(SentError) as sent:
        client.put_object(Bucket="bucket", Key="key", Body=bytes(size))
    assert sent.value.args == (expects,)


@pytest.mark.parametrize(
    "text",
    ["2026-11-25T21:43:30.000Z", "2026-11-25T21:43:30Z", "Wed, 25 Nov 2026 21:43:30 GMT", "1795643010"],
)
def test_client_reads_times_in_all_forms_that_servers_use(text):
    assert _timestamp(text) == datetime(2026, 11, 25, 21, 43, 30, tzinfo=UTC)


class Rotten(BaseHTTPRequestHandler):
    """An object that a plugin stored with a CRC-32, as the AWS SDK for Java does, and whose bytes changed."""

    def do_GET(self):
        self.send_response(200)
        headers = {"Content-Length": "3", "Last-Modified": "Wed, 25 Nov 2026 21:43:30 GMT"}
        for name, value in {**headers, "x-amz-checksum-crc32": "AAAAAA=="}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"abc")

    def log_message(self, *_):
        """Say nothing."""


@pytest.mark.parametrize("read", [S3Store.get, lambda store, key: store.get_range(key, 0, 3)], ids=["get", "get_range"])
def test_client_calls_bytes_damaged_that_are_not_those_of_their_checksum(monkeypatch, read):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with HTTPServer(("127.0.0.1", 0), Rotten) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        store = S3Store("bucket", "", replace(SETTINGS, endpoint_url=url, path_style=True))
        with pytest.raises(CorruptDataError, match="s3://bucket/key: Expected checksum AAAAAA== "):
            read(store, "key")
