"""Samples as text: Prometheus' exposition format 0.0.4, and StatsD lines with Datadog's tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tiersnap.snapshot.metrics.samples import HELP, Sample

LAST_SUCCESS = "tiersnap_last_success_timestamp_seconds"
# A datagram of this size goes through any network in one piece.
_PACKET_BYTES = 1400
_NOT_IN_TAG = re.compile(r"[|,#:\s]")


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


def statsd(samples: Iterable[Sample]) -> Iterator[bytes]:
    """Packets of lines `tiersnap.segments:3|g|#topic:orders,verdict:READY`."""
    packet = b""
    for sample in samples:
        line = _statsd_line(sample).encode("utf-8", "replace")
        if packet and len(packet) + 1 + len(line) > _PACKET_BYTES:
            yield packet
            packet = b""
        packet = packet + b"\n" + line if packet else line
    if packet:
        yield packet


def _statsd_line(sample: Sample) -> str:
    name = sample.name.replace("tiersnap_", "tiersnap.", 1)
    tags = ",".join(f"{key}:{_NOT_IN_TAG.sub('_', value)}" for key, value in sample.labels.items())
    return f"{name}:{_number(sample.value)}|g" + (f"|#{tags}" if tags else "")


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = {
        key: value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for key, value in labels.items()
    }
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
