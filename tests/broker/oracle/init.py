"""What Kafka's coordinator answers to InitProducerId: InitOracle.java, one JVM for all cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.broker.oracle.java import compiled, run_java

SOURCE = Path(__file__).with_name("InitOracle.java")
VERSION = "4.1.1"


def init_oracle(lines: Sequence[str], folder: Path) -> list[tuple[str, str]]:
    """Error and record of each line `state|metadata|asked`, as InitOracle.java prints them."""
    asked = folder / "cases"
    asked.write_text("".join(f"{number}|{line}\n" for number, line in enumerate(lines)))
    said = run_java(VERSION, "InitOracle", [str(asked)], classes=compiled(SOURCE, VERSION))
    parts = [line.split("|") for line in said.splitlines()]
    return [(error, record) for _, error, record in parts]
