"""An S3 server of made remote segments: `python -m tests.perf.remote_server PORT SEGMENTS PARTITIONS TOPICS`.

It answers ListObjectsV2 and GET, and `GET /counts` with the number of each. The PARTITIONS are spread over TOPICS, with
the names `orders`, `orders-1`, `orders-2` and so on, and one topic id. A partition has SEGMENTS tiered segments of ten
offsets, their finished claims, and from 8 segments on its `manifests.json`, as an upload leaves them. moto takes
minutes for 80,000 objects, and a tenth of a second for each page.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import sys
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from tests.reference.planned import TOPIC_ID
from tiersnap.remote_storage.remote_log.known_manifests import WORTH_WRITING

PAGE = 1000
_MODIFIED = "2026-11-20T12:00:00.000Z", "Fri, 20 Nov 2026 12:00:00 GMT"
_XML = '<?xml version="1.0"?>'


def topic_name(number: int) -> str:
    """Return the name of a topic by its number."""
    return f"orders-{number}" if number else "orders"


def objects_of(partition: int, segments: int, topic: str = "orders") -> Iterator[tuple[str, bytes]]:
    """Yield key and content of all objects of a partition."""
    folder, known = f"{topic}-{TOPIC_ID}/{partition}", []
    for base in range(0, 10 * segments, 10):
        segment_id = urlsafe_b64encode(hashlib.md5(f"{topic}/{partition}/{base}".encode()).digest()).decode()[:22]
        stem = f"{folder}/{base:020d}-{segment_id}"
        manifest = json.dumps(_manifest(topic, partition, base, segment_id)).encode()
        yield f"{stem}.log", bytes(162)
        yield f"{stem}.indexes", bytes(122)
        yield f"{stem}.rsm-manifest", manifest
        yield f"claims/{folder}/{base:020d}-0.json", json.dumps(_claim(segment_id)).encode()
        row = {"segmentId": segment_id, "size": len(manifest), "etag": etag(manifest), "content": json.loads(manifest)}
        known.append(row)
    if segments >= WORTH_WRITING:
        yield f"claims/{folder}/manifests.json", json.dumps({"version": 1, "manifests": known}).encode()


def etag(content: bytes) -> str:
    """Return the ETag of an object, with its quotes."""
    return f'"{hashlib.md5(content).hexdigest()}"'


def _manifest(topic: str, partition: int, base: int, segment_id: str) -> dict[str, object]:
    topic_partition = {"topic": topic, "partition": partition}
    return {
        "version": "1",
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": 4 << 20,
            "originalFileSize": 162,
            "transformedChunkSize": 4 << 20,
            "finalTransformedChunkSize": 162,
        },
        "segmentIndexes": {
            "offset": {"position": 0, "size": 0},
            "timestamp": {"position": 0, "size": 12},
            "producerSnapshot": {"position": 12, "size": 102},
            "leaderEpoch": {"position": 114, "size": 8},
            "transaction": None,
        },
        "compression": False,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {"topicId": TOPIC_ID, "topicPartition": topic_partition},
                "id": segment_id,
            },
            "startOffset": base,
            "endOffset": base + 9,
            "maxTimestampMs": 1_700_000_000_003,
            "brokerId": -1,
            "eventTimestampMs": 1_700_000_000_000,
            "segmentLeaderEpochs": {"0": base},
        },
    }


def _claim(segment_id: str) -> dict[str, object]:
    process = {"host": "bench", "pid": 1, "processStart": "x"}
    attempt = {"segmentId": segment_id, "runId": "1", "warehouse": None, "process": process, "ended": False}
    snapshot = {"crc32c": "9b3a6f21", "provenance": "COMPUTED", "verdict": ""}
    return {"version": 1, "attempts": [attempt], "finished": segment_id, "snapshot": snapshot, "kept": []}


class Server(ThreadingHTTPServer):
    """The objects, and the counts of requests."""

    def __init__(self, port: int, segments: int, partitions: int, topics: int) -> None:
        self.objects: dict[str, bytes] = {}
        for number in range(partitions):
            self.objects.update(objects_of(number // topics, segments, topic_name(number % topics)))
        self.keys = sorted(self.objects)
        self.counts: Counter[str] = Counter()
        super().__init__(("127.0.0.1", port), _Handler)

    def page(self, prefix: str, after: str) -> list[str]:
        """Return the next keys, one more than a page if it is not the last."""
        first = max(bisect.bisect_left(self.keys, prefix), bisect.bisect_right(self.keys, after) if after else 0)
        return [key for key in self.keys[first : first + PAGE + 1] if key.startswith(prefix)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        _, bucket, *key = unquote(url.path).split("/", 2)
        if bucket == "counts":
            self._answer(200, json.dumps(self.server.counts).encode())
        elif not key or not key[0]:
            self.server.counts["LIST"] += 1
            self._list({name: values[0] for name, values in parse_qs(url.query).items()})
        else:
            self.server.counts["GET"] += 1
            self._get(key[0])

    def _list(self, asked: dict[str, str]) -> None:
        prefix, after = asked.get("prefix", ""), asked.get("continuation-token") or asked.get("start-after", "")
        keys = self.server.page(prefix, after)
        more = f"<NextContinuationToken>{keys[PAGE - 1]}</NextContinuationToken>" if len(keys) > PAGE else ""
        rows = "".join(map(self._row, keys[:PAGE]))
        body = f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{rows}"
        self._answer(200, f"{_XML}<ListBucketResult>{body}</ListBucketResult>".encode())

    def _row(self, key: str) -> str:
        data = self.server.objects[key]
        tag = etag(data).replace('"', "&quot;")
        values = f"<LastModified>{_MODIFIED[0]}</LastModified><ETag>{tag}</ETag><Size>{len(data)}</Size>"
        return f"<Contents><Key>{key}</Key>{values}</Contents>"

    def _get(self, key: str) -> None:
        data = self.server.objects.get(key)
        if data is None:
            self._answer(404, f"{_XML}<Error><Code>NoSuchKey</Code></Error>".encode())
        elif (asked := self.headers.get("Range")) is None:
            self._answer(200, data, {"ETag": etag(data)})
        else:
            first, last = asked.removeprefix("bytes=").split("-")
            part = data[int(first) : int(last) + 1]
            place = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
            self._answer(206, part, {"ETag": etag(data), "Content-Range": place})

    def _answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), "Last-Modified": _MODIFIED[1], **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    Server(*map(int, sys.argv[1:])).serve_forever()
