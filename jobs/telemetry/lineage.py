"""OpenLineage events of a run (spec 2-0-2): START when the run begins, COMPLETE or FAIL when it ends."""

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
# URNs of the events' producer and of the facet's schema; docs/metrics.md describes the facet.
_PRODUCER = f"urn:tiersnap:{__version__}"
_FACET_SCHEMA = "urn:tiersnap:facet:kafkaTierSnapshot:1"
_NAMESPACE = uuid.UUID("6f0d6a4e-7a55-4b0f-9c67-1f6a5f0a2d11")

Event = dict[str, Any]


@dataclass
class LineageRun:
    """One run of a command."""

    run_id: str
    command: str
    sources: Sequence[str]  # URIs
    targets: Sequence[str]  # URIs
    facts: dict[str, object] = field(default_factory=dict)  # content of the facet; the command adds to it

    def event(self, kind: str) -> Event:
        """Return an event of this kind (START, COMPLETE, FAIL) with the current time."""
        facets: Event = {}
        if self.facts:
            facets = {"kafkaTierSnapshot": {"_producer": _PRODUCER, "_schemaURL": _FACET_SCHEMA, **self.facts}}
        return {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds"),
            # The spec requires a UUID that is equal in all events of a run.
            "run": {"runId": str(uuid.uuid5(_NAMESPACE, self.run_id)), "facets": facets},
            "job": {"namespace": "tiersnap", "name": self.command, "facets": {}},
            "inputs": list(map(dataset_of, self.sources)),
            "outputs": list(map(dataset_of, self.targets)),
            "producer": _PRODUCER,
            "schemaURL": _SCHEMA,
        }


def dataset_of(uri: str) -> Mapping[str, str]:
    """Return the OpenLineage namespace and name of a URI: `s3://bucket` and the key, or `file://host` and the path."""
    from tiersnap.snapshot.report.run_info import without_user

    parts = urlsplit(without_user(uri))
    if parts.scheme in ("", "file"):
        return {"namespace": f"file://{socket.gethostname()}", "name": parts.path or "/"}
    return {"namespace": f"{parts.scheme}://{parts.netloc}", "name": parts.path.strip("/") or "/"}


@contextmanager
def lineage(url: str | None, run: LineageRun) -> Iterator[None]:
    """Send START to the server at `url`, then COMPLETE, or FAIL if the block raises. Send nothing if `url` is None."""
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
