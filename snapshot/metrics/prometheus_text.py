"""Samples of metrics, and their text in Prometheus' exposition format 0.0.4.

All metrics are gauges: a job that ends cannot keep a counter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Help text by metric, in the order of the output. docs/metrics.md has the same list.
HELP: dict[str, str] = {
    "tiersnap_segments": "Segments by verdict.",
    "tiersnap_segment_bytes": "Bytes of segment files by verdict.",
    "tiersnap_copy_lag_segments": "Segments that should be in remote storage but cannot be tiered yet.",
    "tiersnap_copy_lag_bytes": "Bytes of segments that should be in remote storage but cannot be tiered yet.",
    "tiersnap_findings": "Damaged places in the segments that tiersnap read.",
    "tiersnap_lost_producers": "Active producers that a replica lost and that remote storage has.",
    "tiersnap_hung_copies": "Uploads that brokers began and do not finish. Later segments of the partition wait for "
    "them.",
    "tiersnap_last_run_segments_decoded": "Segments that the last run read.",
    "tiersnap_last_run_bytes_decoded": "Bytes of segment files that the last run read.",
    "tiersnap_last_run_snapshots_written": "Producer snapshots that the last run stored.",
    "tiersnap_last_run_segments_uploaded": "Segments that the last run uploaded.",
    "tiersnap_last_run_bytes_uploaded": "Bytes of segment files that the last run uploaded.",
    "tiersnap_last_run_errors": "Errors of the last run.",
    "tiersnap_last_run_duration_seconds": "Duration of the last run by stage. The stage `all` is the whole run.",
    "tiersnap_last_run_timestamp_seconds": "Time when the last run ended.",
    "tiersnap_last_run_exit_code": "Exit code of the last run.",
    "tiersnap_last_success_timestamp_seconds": "Time when a run last ran to its end, even if it found problems.",
    "tiersnap_orphans": "Objects and multipart uploads that tiersnap left in remote storage and no longer needs, by "
    "kind.",
    "tiersnap_orphan_bytes": "Bytes of the objects that tiersnap left in remote storage and no longer needs, by kind.",
    "tiersnap_build_info": "Always 1. The label `version` has tiersnap's version.",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric."""

    name: str  # a key of HELP
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)  # names to values, any text

    def __post_init__(self) -> None:
        if self.name not in HELP:
            raise KeyError(f"{self.name} is not a metric of tiersnap")


LAST_SUCCESS = "tiersnap_last_success_timestamp_seconds"


def prometheus(samples: Iterable[Sample]) -> str:
    """Return the exposition text: metrics in the order of HELP, each with its HELP and TYPE lines."""
    families: dict[str, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.name, []).append(sample)
    lines: list[str] = []
    for name, text in HELP.items():
        if name in families:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels(each.labels)} {_number(each.value)}" for each in families[name]]
    return "\n".join(lines) + "\n"


def last_success(text: str) -> float | None:
    """Return the value of LAST_SUCCESS in an exposition text, None if the text lacks the metric."""
    found = re.search(rf"^{LAST_SUCCESS}(?:{{[^}}]*}})? ([0-9.]+)$", text, re.MULTILINE)
    return None if found is None else float(found[1])


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
