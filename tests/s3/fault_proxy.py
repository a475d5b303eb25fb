"""An HTTP proxy on loopback that passes requests on to a server, but for those its rules pick out."""

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Matcher = Callable[[str, str], bool]  # method, path with query


@dataclass
class Rule:
    """What to do with the next `times` requests that match.

    action: "answer" (status, S3 error code), "drop" the connection, "drop-answer" after passing the request on,
    "stall" for `seconds` and drop, "strip" the request of the header named by `code`, "header"
    replaces a header of the answer, "body" flips the first byte of the answer.

    `outlasted` counts the stalls that came to their end.
    """

    matches: Matcher
    action: str
    times: int = 1_000_000
    status: int = 503
    code: str = "SlowDown"
    seconds: float = 0.0
    header: tuple[str, str] = ("", "")
    hits: int = field(default=0)
    outlasted: int = field(default=0)


class FaultProxy:
    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.rules: list[Rule] = []
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "FaultProxy":
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def when(self, matches: Matcher, action: str, **options: object) -> Rule:
        rule = Rule(matches, action, **options)
        self.rules.append(rule)
        return rule

    def rule_for(self, method: str, path: str) -> Rule | None:
        with self.lock:
            self.requests.append(f"{method} {path}")
            for rule in self.rules:
                if rule.hits < rule.times and rule.matches(method, path):
                    rule.hits += 1
                    return rule
        return None


def _handler_for(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, TimeoutError):
                self.close_connection = True

        def _serve(self) -> None:
            rule = proxy.rule_for(self.command, self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            action = rule.action if rule else ""
            if rule and action == "answer":
                text = f"<Error><Code>{rule.code}</Code><Message>on schedule</Message></Error>".encode()
                self._answer(rule.status, [("Content-Type", "application/xml")], text)
                return
            if rule and action in {"drop", "stall"}:
                time.sleep(rule.seconds)
                rule.outlasted += 1
                self.close_connection = True
                return
            headers_sent = dict(self.headers.items())
            if rule and action == "strip":
                headers_sent = {name: value for name, value in headers_sent.items() if name.lower() != rule.code}
            upstream = http.client.HTTPConnection(proxy.target, timeout=20)
            try:
                upstream.request(self.command, self.path, body=body or None, headers=headers_sent)
                response = upstream.getresponse()
                content = response.read()
            finally:
                upstream.close()
            if action == "drop-answer":
                self.close_connection = True
                return
            headers = response.getheaders()
            if rule and action == "header":
                headers = [(name, value) for name, value in headers if name.lower() != rule.header[0].lower()]
                headers.append(rule.header)
            if action == "body" and content:
                content = bytes([content[0] ^ 0xFF]) + content[1:]
            self._answer(response.status, headers, content)

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            length = str(len(content))
            for name, value in headers:
                if name.lower() == "content-length":
                    length = value if self.command == "HEAD" else length
                elif name.lower() not in {"transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
