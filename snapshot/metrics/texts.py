"""Samples as text: Prometheus' exposition format 0.0.4."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tiersnap.snapshot.metrics.samples import HELP, Sample

LAST_SUCCESS = "tiersnap_last_success_timestamp_seconds"


def prometheus(samples: Iterable[Sample]) -> str:
    """Families in the order of HELP, each with its HELP and TYPE lines."""
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
    """The value that a file of ours has for it; None if it has none, or is no file of ours."""
    found = re.search(rf"^{LAST_SUCCESS}(?:{{[^}}]*}})? ([0-9.]+)$", text, re.MULTILINE)
    return None if found is None else float(found[1])


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = {
        key: value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for key, value in labels.items()
    }
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
