"""Judges a history: `python -m tests.chaos.check HISTORY [CONTROL]`.

CONTROL is the history of the same storm without tiersnap: how often Kafka alone broke a rule stands beside each.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.chaos.facts import Facts
from tests.chaos.history import events
from tests.chaos.rules_of_commands import RULES as OF_COMMANDS
from tests.chaos.rules_of_records import RULES as OF_RECORDS
from tests.chaos.rules_of_segments import RULES as OF_SEGMENTS
from tests.chaos.violation import Violation

_SHOWN = 5


def violations(facts: Facts) -> list[Violation]:
    """All that a history breaks, rule by rule."""
    return [found for rule in (*OF_RECORDS, *OF_SEGMENTS, *OF_COMMANDS) for found in rule(facts)]


def judge(path: Path, control: Path | None = None) -> list[Violation]:
    """Print what a history says and what it breaks, beside what the control run broke; returns what it breaks."""
    kafkas = Counter(each.rule for each in violations(Facts.of(events(control)))) if control is not None else None
    facts = Facts.of(events(path))
    for line in facts.summary():
        print(line)
    found = violations(facts)
    for rule, count in Counter(each.rule for each in found).items():
        print(f"{rule}: {count}" + (f"; without tiersnap: {kafkas[rule]}" if kafkas is not None else ""))
        for each in [each for each in found if each.rule == rule][:_SHOWN]:
            print(f"  {each.text}")
    return found


if __name__ == "__main__":
    sys.exit(int(bool(judge(*map(Path, sys.argv[1:3])))))
