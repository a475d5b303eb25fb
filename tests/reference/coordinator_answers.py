"""What Kafka's coordinators answered (tests/golden/coordinator-answers.txt), so that tests without a JVM know it.

`python -m tests.reference.coordinator_answers` asks the jars of RELEASES anew.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

from tests.reference.coordinator_questions import Question, random_questions, rotated_questions
from tiersnap.snapshot.exactly_once.models.decision_table import SAME, read_table

GOLDEN = Path(__file__).parents[1] / "golden" / "coordinator-answers.txt"
RELEASES = ("3.9.1", "4.0.0", "4.0.1", "4.1.1", "4.2.1", "4.3.1", "4.4.0")
COUNT = 250
BAR = "/"  # in the place of the bars of a question or an answer, which part the cells of the table


def questions() -> list[Question]:
    """Those of the file, in its order."""
    asked = [each for version in (1, 2) for each in random_questions(29, COUNT, transaction_version=version)]
    return asked + [each for version in (1, 2) for each in rotated_questions(transaction_version=version)]


def knows(release: str, question: Question) -> bool:
    """Whether the release has transactions of the question's version."""
    return question.server_version < 2 or release != "3.9.1"


def golden_answers() -> list[tuple[Question, str, str]]:
    """Question, release, and the answer of that release."""
    rows = read_table(GOLDEN.read_text(encoding="utf-8"))
    found = []
    for question, row in zip(questions(), rows, strict=True):
        assert row["question"] == question.line.replace("|", BAR), "the questions changed: ask the jars anew"
        found += [(question, name, row[name].replace(BAR, "|")) for name in RELEASES if knows(name, question)]
    return found


def write() -> None:
    """Ask every release, and keep the answers."""
    from tests.broker.oracle.coordinator import coordinator_oracle

    asked = questions()
    answers: dict[str, dict[int, str]] = {}
    for release in RELEASES:
        numbers = [number for number, each in enumerate(asked) if knows(release, each)]
        with tempfile.TemporaryDirectory() as folder:
            said = coordinator_oracle(release, [asked[number] for number in numbers], Path(folder))
        answers[release] = dict(zip(numbers, said, strict=True))
    lines = [["question", *RELEASES]]
    for number, question in enumerate(asked):
        cells = [answers[release].get(number, "-").replace("|", BAR) for release in RELEASES]
        short = [cells[0], *(SAME if cell == before else cell for before, cell in pairwise(cells))]
        lines.append([question.line.replace("|", BAR), *short])
    GOLDEN.write_text("".join(" | ".join(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    write()
