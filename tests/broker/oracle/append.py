"""What a partition of Kafka answers to a batch: AppendOracle.java, one JVM for all cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.broker.oracle.java import compiled, run_java
from tests.reference.append_cases import AppendCase

SOURCE = Path(__file__).with_name("AppendOracle.java")


@dataclass(frozen=True)
class Answered:
    """Answer, offset of the first record (-1 with an error) and the producer's state afterwards."""

    answer: str
    first_offset: int
    state: str


def append_oracle(version: str, cases: Sequence[AppendCase], folder: Path) -> list[Answered]:
    """Ask Kafka's UnifiedLog; its logs are left in `folder`."""
    lines = [f"{number}|{each.log}|{each.origin}|{each.batch}" for number, each in enumerate(cases)]
    asked = folder / "cases"
    asked.write_text("\n".join(lines) + "\n")
    said = run_java(version, "AppendOracle", [str(folder), str(asked)], classes=compiled(SOURCE, version))
    parts = [line.split("|") for line in said.splitlines()]
    return [Answered(answer, int(offset), state) for _, answer, offset, state in parts]
