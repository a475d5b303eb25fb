"""The clusters in Airflow's settings, and the arguments of `tiersnap run` for each.

The Variable `tiersnap_clusters` is a JSON list, one object a cluster; a warehouse of its own lets clusters run side by
side. Only `name`, `sources` and `remote` are needed:

    [{"name": "eu-1",
      "sources": ["/mnt/kafka-1", "/mnt/kafka-2"],       log directories, one replica of a partition each
      "remote": "s3://bucket/tiers",
      "bootstrap_server": "broker-1:9092",               publish the uploaded segments to this cluster
      "warehouse": "/mnt/shared/tiersnap/eu-1",          folder of the Delta tables
      "report": "/mnt/shared/tiersnap/eu-1-report",      folder of the readiness report
      "options": ["--region", "eu-central-1"],           other options of `tiersnap run`
      "maintain": ["--region", "eu-central-1"],          other options of `tiersnap maintain tables`
      "conf": {"spark.pyspark.python": "/opt/tiersnap/bin/python"},
      "apply": true}]                                    false: plan and report only
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime

from tiersnap.snapshot.errors import UsageError

VARIABLE = "tiersnap_clusters"
_HINT = '[{"name": "eu-1", "sources": ["/mnt/kafka-1"], "remote": "s3://bucket/tiers"}] is the least that it takes'


@dataclass(frozen=True)
class BackfilledCluster:
    """One cluster; see the module's text."""

    name: str
    sources: tuple[str, ...]
    remote: str
    bootstrap_server: str = ""
    warehouse: str = ""
    report: str = ""
    options: tuple[str, ...] = ()
    maintain: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    apply: bool = True

    @classmethod
    def parse(cls, found: object) -> BackfilledCluster:
        """Return one object of the list; refuse unknown or missing keys and values of another kind (UsageError)."""
        if not isinstance(found, Mapping):
            raise UsageError(f"{VARIABLE}: {found!r} is no object", hint=_HINT)
        name = found.get("name")
        known = {each.name for each in fields(cls)}
        if unknown := sorted(found.keys() - known):
            raise UsageError(f"{VARIABLE}: {name}: unknown key {unknown[0]!r}", hint=f"known are {sorted(known)}")
        for key in ("name", "sources", "remote"):
            if not found.get(key):
                raise UsageError(f"{VARIABLE}: {name}: {key!r} is missing", hint=_HINT)
        lists = {key: found.get(key, ()) for key in ("sources", "options", "maintain")}
        for key, value in lists.items():
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise UsageError(f"{VARIABLE}: {name}: {key!r} is no list", hint=_HINT)
            if odd := [each for each in value if not _is_word(each)]:
                raise UsageError(f"{VARIABLE}: {name}: {key!r} holds {odd[0]!r}, which is no text", hint=_HINT)
        for key in ("name", "remote", "bootstrap_server", "warehouse", "report"):
            if not isinstance(found.get(key) or "", str):
                raise UsageError(f"{VARIABLE}: {name}: {key!r} is {found[key]!r}, which is no text", hint=_HINT)
        conf, apply = found.get("conf", {}), found.get("apply", True)
        if not isinstance(conf, Mapping) or not all(isinstance(each, str | int | float) for each in conf.values()):
            raise UsageError(f"{VARIABLE}: {name}: 'conf' is no object of texts", hint=_HINT)
        if not isinstance(apply, bool):
            raise UsageError(f"{VARIABLE}: {name}: 'apply' is {apply!r}: true or false, without quotes", hint=_HINT)
        return cls(
            name=str(name),
            sources=tuple(map(str, lists["sources"])),
            remote=str(found["remote"]),
            bootstrap_server=str(found.get("bootstrap_server") or ""),
            warehouse=str(found.get("warehouse") or f"tiersnap-warehouse/{name}"),
            report=str(found.get("report") or f"tiersnap-report/{name}"),
            options=tuple(map(str, lists["options"])),
            maintain=tuple(map(str, lists["maintain"])),
            conf={str(key): value if isinstance(value, str) else json.dumps(value) for key, value in conf.items()},
            apply=apply,
        )

    def arguments(self, until: datetime | None = None) -> list[str]:
        """Words after `tiersnap run`; `until` tiers only what ends before that time."""
        return [
            *(word for source in self.sources for word in ("--source", source)),
            *("--remote", self.remote, "--warehouse", self.warehouse, "--report", self.report),
            *(["--bootstrap-server", self.bootstrap_server] if self.bootstrap_server else []),
            *self.options,
            *([] if until is None else ["--until", until.isoformat()]),
            *(["--apply"] if self.apply else []),
        ]

    def maintain_arguments(self) -> list[str]:
        """Words after `tiersnap maintain tables`."""
        return ["--warehouse", self.warehouse, *self.maintain, *(["--apply"] if self.apply else [])]


def _is_word(value: object) -> bool:
    """Return whether a command line can hold the value as JSON writes it."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def parse_clusters(found: object) -> list[BackfilledCluster]:
    """Return the clusters of the Variable; UsageError if it has none, or two share a name or a report."""
    if isinstance(found, str) or not isinstance(found, Sequence) or not found:
        raise UsageError(f"{VARIABLE} is no list of clusters", hint=_HINT)
    clusters = [BackfilledCluster.parse(each) for each in found]
    for what in ("name", "report"):
        values = [getattr(each, what) for each in clusters]
        if twice := [value for value in values if values.count(value) > 1]:
            raise UsageError(f"{VARIABLE}: two clusters have the {what} {twice[0]!r}", hint="give each its own")
    return clusters
