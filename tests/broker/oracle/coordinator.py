"""What Kafka's coordinator does with transactional ids: CoordinatorOracle.java, one JVM for all questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.broker.oracle.java import compiled, run_java
from tests.reference.coordinator_questions import Question

SOURCE = Path(__file__).with_name("CoordinatorOracle.java")


def coordinator_oracle(version: str, questions: Sequence[Question], folder: Path) -> list[str]:
    """Kafka's answers, in the words of `Question.answered`."""
    asked = folder / "questions"
    asked.write_text("".join(f"{number}|{each.line}\n" for number, each in enumerate(questions)))
    said = run_java(version, "CoordinatorOracle", [str(asked)], classes=compiled(SOURCE, version))
    answers = [line.partition("|")[2] for line in said.splitlines()]
    return [each.comparable(answer) for each, answer in zip(questions, answers, strict=True)]
