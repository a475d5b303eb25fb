"""An S3 server that answers uploads and keeps nothing: `python -m tests.perf.sink` prints its port."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PIECE = 1 << 20


class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self._piece = memoryview(bytearray(_PIECE))

    def do_HEAD(self) -> None:
        self._answer(404)

    def do_DELETE(self) -> None:
        self._answer(204)

    def do_PUT(self) -> None:
        self._drain()
        self._answer(200, etag='"0"')

    def do_POST(self) -> None:
        self._drain()
        name = "InitiateMultipartUploadResult" if self.path.endswith("?uploads") else "CompleteMultipartUploadResult"
        body = f"<{name}><UploadId>1</UploadId><ETag>0</ETag></{name}>"
        self._answer(200, body.encode())

    def _drain(self) -> None:
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0:
            left -= self.rfile.readinto(self._piece[: min(left, _PIECE)])

    def _answer(self, status: int, body: bytes = b"", etag: str = "") -> None:
        self.send_response_only(status)
        for name, value in self.headers.items():
            if name.lower() == "x-amz-checksum-crc32c":
                self.send_header(name, value)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    print(server.server_address[1], flush=True)
    server.serve_forever()
