"""What must hold of the commands: they end, with an exit code that is documented, and without a traceback."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.facts import Facts
from tests.chaos.violation import Violation

# 1 is a defect of ours by definition, 2 a word that was wrong.
ALLOWED = {0, 3, 4, 5, 6}
# But for these: nothing was tiered yet; all replicas were moved to the other log directory.
_NOTHING_THERE = ("no completely uploaded segment", "no topic matches")


def ended_oddly(facts: Facts) -> Iterator[Violation]:
    """Each command that was not killed ends as the runbook says."""
    for each in facts.commands:
        words = " ".join(each["words"])
        if each["hung"]:
            yield Violation("hangs", f"{words} after {each['seconds']} s")
        elif each["killed"] or (each["exit_code"] == 2 and any(said in each["error"] for said in _NOTHING_THERE)):
            continue
        elif each["exit_code"] not in ALLOWED or "Traceback" in each["error"]:
            yield Violation("unexpected end", f"{each['exit_code']}: {words}: {each['error'][-600:]}")


RULES = (ended_oddly,)
