"""What both revisions type: each scenario in a workspace of its own, its commands one after the other.

Words in braces are paths of the workspace: {logs} a copy of the log directory, {remote} and {warehouse} new folders,
{out} an empty one, {disk} a log directory without partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AS_OF, NOW = "--as-of 2026-11-21T12:45:00Z", "--now 2026-11-21T12:45:00Z"
FORMS = ("", "--output json", "--output jsonl")


@dataclass(frozen=True)
class Scenario:
    """Commands in one workspace, over the log directories named; `is_spark` needs a JVM."""

    name: str
    commands: tuple[str, ...]
    logs: tuple[str, ...] = ("all", "generated")
    is_spark: bool = False


def _in_all_forms(name: str, line: str) -> Iterator[Scenario]:
    for form in FORMS:
        yield Scenario(f"{name} {form}".strip(), (f"{line} {form}".strip(),))


def host_scenarios() -> Iterator[Scenario]:
    """All commands that need no JVM and no cluster."""
    yield from _in_all_forms("doctor", "doctor {logs}")
    yield from _in_all_forms("scan", f"scan {{logs}} {NOW}")
    yield from _in_all_forms("scan segments", f"scan {{logs}} --segments {NOW}")
    yield from _in_all_forms("verify", f"verify {{logs}} --strict {NOW}")
    yield from _in_all_forms("repair plan", f"repair {{logs}} {AS_OF} {NOW}")
    yield from _in_all_forms("producers", f"producers {{logs}} {NOW}")
    yield from _in_all_forms("transactions list", f"transactions list {{logs}} {NOW}")
    yield from _in_all_forms("find-hanging", f"transactions find-hanging {{logs}} --all {NOW}")
    yield from _in_all_forms("simulate", f"simulate {{logs}} --all {NOW}")
    yield from _in_all_forms("risk", f"simulate {{logs}} --risk {NOW}")
    yield Scenario("repair", (f"repair {{logs}} {AS_OF} --apply", f"verify {{logs}} {NOW}", f"scan {{logs}} {NOW}"))
    yield Scenario("repair all", (f"repair {{logs}} {AS_OF} --out {{out}} --all",))
    yield Scenario("repair replace", (f"repair {{logs}} {AS_OF} --replace --above-newest --apply",))
    yield Scenario("scan report", (f"scan {{logs}} {NOW} --report {{out}} --metrics-file {{out}}/scan.prom",))
    tier = f"tier {{logs}} --remote {{remote}} {AS_OF} {NOW}"
    for name, more in (("aiven", ""), ("local", " --layout local-tiered-storage"), ("all", " --all --replace")):
        plan = f"{tier}{more} --output json"
        yield Scenario(f"tier {name}", (plan, f"{tier}{more} --apply", f"{tier}{more} --apply", f"scan {{logs}} {NOW}"))
    restore = f"restore --remote {{remote}} --to {{disk}} --topic orders {NOW}"
    yield Scenario(
        "restore",
        (
            f"tier {{logs}} --remote {{remote}} {AS_OF} {NOW} --replace --apply",
            f"{restore} --unpublished --output json",
            f"{restore} --unpublished --apply",
            f"tier {{logs}} --remote {{remote}} {AS_OF} {NOW} --apply",
        ),
        ("kafka-3.9.1",),
    )
    yield Scenario(
        "collect", ("collect {logs} --to {remote} --apply --headers", "collect {logs} --to {remote} --apply")
    )
    for kind in ("log", "index", "timeindex", "txnindex", "snapshot"):
        for form in ("", "--output json", "--output kafka"):
            yield Scenario(f"dump {kind} {form}".strip(), (f"dump {{logs}}/*/*.{kind} {form}".strip(),), ("all",))


def spark_scenarios() -> Iterator[Scenario]:
    """The main job and its neighbours, in sessions of their own."""
    places = f"--source {{logs}} --remote {{remote}} --warehouse {{warehouse}} --master local[2] {AS_OF}"
    yield Scenario(
        "run",
        (
            f"run {places} --report {{out}}/1 --output json",
            f"run {places} --report {{out}}/2 --apply",
            f"run {places} --report {{out}}/3 --apply",
            "report --warehouse {warehouse} --report {out}/4 --output json",
        ),
        ("all", "generated"),
        is_spark=True,
    )
    yield Scenario("run window", (f"run {places} --scan window --apply",), ("ledger-2.7.2", "generated"), is_spark=True)
    yield Scenario(
        "decode and audit",
        (
            "decode --source {logs} --warehouse {warehouse} --master local[2] --apply",
            "audit --warehouse {warehouse} --master local[2] --limit 0 --output json",
        ),
        ("all",),
        is_spark=True,
    )
