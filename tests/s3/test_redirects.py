"""An endpoint that sends requests elsewhere, as nginx does from http to https, is no S3: one sentence says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.s3.conftest import settings_for
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.errors import RemoteStorageError

pytestmark = pytest.mark.s3

LOCATION = "https://minio.example:443/"


@pytest.fixture(params=[301, 302, 307, 308])
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server that redirects, and names no region."""

    class Handler(BaseHTTPRequestHandler):
        def redirect(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(request.param)
            self.send_header("Location", LOCATION)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = redirect  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_store_names_the_place_that_it_is_sent_to(endpoint: str) -> None:
    store = S3Store("bucket", "", settings_for(endpoint))
    for ask in (lambda: list(store.list()), lambda: store.read("key", limit=1), lambda: store.head("key")):
        with pytest.raises(RemoteStorageError, match=f"redirects to {LOCATION}") as raised:
            ask()
        assert raised.value.hint == f"--endpoint-url {LOCATION.rstrip('/')}"


@pytest.mark.parametrize("command", ["scan", "doctor", "tier", "repair"])
def test_command_says_it_in_a_sentence(endpoint: str, tmp_path, monkeypatch, command: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    (tmp_path / "meta.properties").touch()
    apply = ["--apply"] if command == "tier" else []
    words = ["--remote", "s3://bucket/x", "--endpoint-url", endpoint, "--path-style", "--region", "us-east-1"]
    ran = tiersnap(command, tmp_path, *words, *apply)
    assert_said(ran, 2, f"redirects to {LOCATION}")
    assert len(ran.err) < 2000
