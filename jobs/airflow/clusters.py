"""The clusters in Airflow's settings, and the arguments of `tiersnap run` for each.

The Variable `tiersnap_clusters` is a JSON list with one object per cluster. Clusters with different warehouses run at
the same time. The keys `name`, `sources` and `remote` are required:

    [{"name": "eu-1",
      "sources": ["/mnt/kafka-1", "/mnt/kafka-2"],       log directories; each partition is in one of them
      "remote": "s3://bucket/tiers",
      "bootstrap_server": "broker-1:9092",               publish the uploaded segments to this cluster
      "warehouse": "/mnt/shared/tiersnap/eu-1",          folder of the Delta tables
      "report": "/mnt/shared/tiersnap/eu-1-report",      folder of the readiness report
      "options": ["--region", "eu-central-1"],           other options of `tiersnap run`
      "maintain": ["--region", "eu-central-1"],          other options of `tiersnap maintain tables`
      "conf": {"spark.pyspark.python": "/opt/tiersnap/bin/python"},
      "upload": true}]                                   false: tables and report only
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TypeGuard

from tiersnap.snapshot.errors import UsageError

VARIABLE = "tiersnap_clusters"
_HINT = 'for example: [{"name": "eu-1", "sources": ["/mnt/kafka-1"], "remote": "s3://bucket/tiers"}]'


@dataclass(frozen=True)
class BackfilledCluster:
    """One cluster of the Variable `tiersnap_clusters`; the module docstring describes the fields."""

    name: str
    sources: tuple[str, ...]
    remote: str
    bootstrap_server: str = ""
    warehouse: str = ""
    report: str = ""
    options: tuple[str, ...] = ()
    maintain: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    upload: bool = True

    @classmethod
    def parse(cls, found: object) -> BackfilledCluster:
        """Return the cluster of a JSON object.

        Raises:
            UsageError: a key is unknown or missing, or a value has the wrong type.
        """
        if not isinstance(found, Mapping):
            raise UsageError(f"{VARIABLE}: {found!r} is not a JSON object", hint=_HINT)
        _check_keys(found, {each.name for each in fields(cls)})
        sources = _words(found, "sources")
        options = _words(found, "options")
        maintain = _words(found, "maintain")
        name = _text(found, "name")
        return cls(
            name=name,
            sources=sources,
            remote=_text(found, "remote"),
            bootstrap_server=_text(found, "bootstrap_server"),
            warehouse=_text(found, "warehouse") or f"tiersnap-warehouse/{name}",
            report=_text(found, "report") or f"tiersnap-report/{name}",
            options=options,
            maintain=maintain,
            conf=_conf(found),
            upload=_upload(found),
        )

    def arguments(self, until: datetime | None = None) -> list[str]:
        """Return the words after `tiersnap run`.

        Args:
            until: tier only segments whose largest timestamp is before this time; None for all segments.
        """
        words = []
        for source in self.sources:
            words += ["--source", source]
        words += ["--remote", self.remote, "--warehouse", self.warehouse, "--report", self.report]
        if self.bootstrap_server:
            words += ["--bootstrap-server", self.bootstrap_server]
        words += self.options
        if until is not None:
            words += ["--until", until.isoformat()]
        if not self.upload:
            words.append("--no-upload")
        return [*words, "--apply"]

    def maintain_arguments(self) -> list[str]:
        """Return the words after `tiersnap maintain tables`."""
        return ["--warehouse", self.warehouse, *self.maintain, "--apply"]


def _check_keys(found: Mapping[object, object], known: Set[str]) -> None:
    """Raise UsageError if a key is unknown, or a required key is missing."""
    if unknown := sorted(map(str, found.keys() - known)):
        raise _refusal(found, f"unknown key {unknown[0]!r}", hint=f"known are {sorted(known)}")
    for key in ("name", "sources", "remote"):
        if not found.get(key):
            raise _refusal(found, f"{key!r} is missing")


def _words(found: Mapping[object, object], key: str) -> tuple[str, ...]:
    """Return the list under a key as words of a command line. Raise UsageError for any other value."""
    value = found.get(key, ())
    if not _is_list(value):
        raise _refusal(found, f"{key!r} is not a list")
    for each in value:
        if not _is_word(each):
            raise _refusal(found, f"{key!r}: the element {each!r} is not a text")
    return tuple(map(str, value))


def _text(found: Mapping[object, object], key: str) -> str:
    """Return the text under a key; "" if it is empty or missing."""
    value = found.get(key) or ""
    if not isinstance(value, str):
        raise _refusal(found, f"{key!r}: the value {value!r} is not a text")
    return value


def _conf(found: Mapping[object, object]) -> dict[str, str]:
    """Return the Spark settings, with values as text. Numbers and booleans get their JSON form, such as `true`."""
    conf = found.get("conf", {})
    refusal = _refusal(found, "'conf': the value is not a JSON object of texts, numbers or booleans")
    if not isinstance(conf, Mapping):
        raise refusal
    texts: dict[str, str] = {}
    for key, value in conf.items():
        if isinstance(value, str):
            texts[str(key)] = value
        elif isinstance(value, int | float):
            texts[str(key)] = json.dumps(value)
        else:
            raise refusal
    return texts


def _upload(found: Mapping[object, object]) -> bool:
    upload = found.get("upload", True)
    if not isinstance(upload, bool):
        raise _refusal(found, f"'upload' is {upload!r}: write true or false without quotes")
    return upload


def _refusal(found: Mapping[object, object], reason: str, hint: str = _HINT) -> UsageError:
    return UsageError(f"{VARIABLE}: {found.get('name')}: {reason}", hint=hint)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_word(value: object) -> bool:
    """Return whether the value is a str or a number. Return False for a boolean."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def parse_clusters(found: object) -> list[BackfilledCluster]:
    """Return the clusters in the Variable's JSON value.

    Raises:
        UsageError: the Variable has no clusters, a cluster is invalid, or two clusters share a name or a report folder.
    """
    if not _is_list(found) or not found:
        raise UsageError(f"{VARIABLE}: not a list of clusters", hint=_HINT)
    clusters = list(map(BackfilledCluster.parse, found))
    _check_distinct("name", [each.name for each in clusters])
    _check_distinct("report", [each.report for each in clusters])
    return clusters


def _check_distinct(key: str, values: Sequence[str]) -> None:
    """Raise UsageError if two of the values are equal."""
    for value in values:
        if values.count(value) > 1:
            raise UsageError(
                f"{VARIABLE}: two clusters have the {key} {value!r}", hint=f"give one of the two clusters another {key}"
            )
