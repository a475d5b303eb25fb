"""A loopback server that says who asked: S3 of an empty bucket, and the agents that hand out credentials of roles."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROLE_TOKEN = "token-of-the-role"
_LISTING = b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
_ROLE = "/latest/meta-data/iam/security-credentials/"


@dataclass
class Recording:
    """What S3 was asked: (access key id, session token) of each request, and the other paths that were asked."""

    url: str
    asked_by: list[tuple[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextlib.contextmanager
def recording_server(tls: ssl.SSLContext | None = None) -> Iterator[Recording]:
    """Run it; requests to its URL are recorded."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            signed = self.headers.get("Authorization", "")
            if "Credential=" in signed:
                key = signed.partition("Credential=")[2].partition("/")[0]
                recording.asked_by.append((key, self.headers.get("X-Amz-Security-Token", "")))
                self._answer(_LISTING, "application/xml")
                return
            recording.paths.append(self.path)
            named = b"the-role" if self.path == _ROLE else json.dumps(_credentials(self.path)).encode()
            self._answer(named, "application/json")

        def do_PUT(self) -> None:
            recording.paths.append(self.path)
            self._answer(b"session-of-imds", "text/plain")

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    recording = Recording(f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield recording
    finally:
        server.shutdown()
        server.server_close()


def _credentials(path: str) -> dict[str, str]:
    return {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": "key-of-the-instance" if path.startswith(_ROLE) else "key-of-the-container",
        "SecretAccessKey": "secret",
        "Token": ROLE_TOKEN,
        "LastUpdated": "2026-01-01T00:00:00Z",
        "Expiration": "2099-01-01T00:00:00Z",
    }
