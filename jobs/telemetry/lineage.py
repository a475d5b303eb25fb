"""OpenLineage events of a run (spec 2-0-2): START when it begins, COMPLETE or FAIL when it ends."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from tiersnap.jobs.telemetry.metrics import attempt, post, with_path
from tiersnap.snapshot import __version__

_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
# Names, not addresses to fetch: the producer of an event, and the schema of its facet (docs/metrics.md).
_PRODUCER = f"urn:tiersnap:{__version__}"
_FACET_SCHEMA = "urn:tiersnap:facet:kafkaTierSnapshot:1"
_NAMESPACE = uuid.UUID("6f0d6a4e-7a55-4b0f-9c67-1f6a5f0a2d11")

Event = dict[str, Any]


@dataclass
class LineageRun:
    """One run of a command from `sources` to `targets` (URIs); `facts`, for the facet, are filled in while it runs."""

    run_id: str
    command: str
    sources: Sequence[str]
    targets: Sequence[str]
    facts: dict[str, object] = field(default_factory=dict)

    def event(self, kind: str) -> Event:
        """Return an event with the current time."""
        facets: Event = {}
        if self.facts:
            facets = {"kafkaTierSnapshot": {"_producer": _PRODUCER, "_schemaURL": _FACET_SCHEMA, **self.facts}}
        return {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds"),
            # The spec wants a UUID; every event of a run has the same one.
            "run": {"runId": str(uuid.uuid5(_NAMESPACE, self.run_id)), "facets": facets},
            "job": {"namespace": "tiersnap", "name": self.command, "facets": {}},
            "inputs": [dataset_of(uri) for uri in self.sources],
            "outputs": [dataset_of(uri) for uri in self.targets],
            "producer": _PRODUCER,
            "schemaURL": _SCHEMA,
        }


def dataset_of(uri: str) -> Mapping[str, str]:
    """Return namespace and name by OpenLineage's rules: `s3://bucket` and the key, `file://host` and the path."""
    from tiersnap.snapshot.report.run_info import without_user

    parts = urlsplit(without_user(uri))
    if parts.scheme in ("", "file"):
        return {"namespace": f"file://{socket.gethostname()}", "name": parts.path or "/"}
    return {"namespace": f"{parts.scheme}://{parts.netloc}", "name": parts.path.strip("/") or "/"}


@contextmanager
def lineage(url: str | None, run: LineageRun) -> Iterator[None]:
    """Send START to the server at `url`, and COMPLETE or FAIL at the end; send nothing if `url` is None."""
    if url is None:
        yield
        return
    _send(url, run, "START")
    kind = "FAIL"
    try:
        yield
        kind = "COMPLETE"
    finally:
        _send(url, run, kind)


def _send(url: str, run: LineageRun, kind: str) -> None:
    whole = with_path(url, "api/v1/lineage")
    attempt(
        f"--openlineage {url}", lambda: post(whole, json.dumps(run.event(kind)).encode("utf-8"), "application/json")
    )
