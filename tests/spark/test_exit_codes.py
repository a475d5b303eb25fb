"""What real Spark finds in the situations of docs/exit-codes.md is what the commands of hosts find, or the page says.

All hosts are sources of one run. Left out are situations that end before Spark starts (tests/unit/test_exit_codes.py
calls that code itself), one that needs a process for which the modes of files count, and another replica of one.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.reference.command import Ran, tiersnap
from tests.reference.situations import SITUATIONS, CannotBeLaidOutError, Site
from tests.unit.test_exit_codes import told_code
from tiersnap.snapshot.exactly_once.models.audit_rules import Harm
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.log.findings import FindingKind

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

WITHOUT_SPARK = {"disk not mounted", "unreadable folder", "on two disks", "replica without producers"}
TOPICS = ("--topic", "topic-.*|orders|hanging")
"""Not the topics that all of them have."""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    """By situation."""
    below, found = tmp_path_factory.mktemp("hosts"), {}
    with ExitStack() as stack:
        for name in SITUATIONS.keys() - WITHOUT_SPARK:
            at = below / f"topic-{name.replace(' ', '-')}"
            at.mkdir()
            try:
                found[name] = stack.enter_context(SITUATIONS[name](at))
            except CannotBeLaidOutError:
                continue
        yield found


@pytest.fixture(scope="module")
def remote(sites: dict[str, Site], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all of them have in remote storage."""
    place = tmp_path_factory.mktemp("remote")
    for site in sites.values():
        shutil.copytree(site.remote, place, dirs_exist_ok=True)
    return place


def sources(sites: dict[str, Site]) -> list[str | Path]:
    return [word for site in sites.values() for log_dir in site.log_dirs for word in ("--source", log_dir)]


def findings_of(ran: Ran) -> set[tuple[str, str]]:
    """Kinds and paths."""
    return {(each["finding_kind"], each["path"]) for each in json.loads(ran.out)["result"]["findings"]}


def as_uploaded(verdicts: dict[str, int]) -> dict[str, int]:
    """The verdicts of an upload, which makes wrong indexes again."""
    counts = Counter({"READY" if name == "INDEX_DAMAGED" else name: 0 for name in verdicts})
    for name, count in verdicts.items():
        counts["READY" if name == "INDEX_DAMAGED" else name] += count
    return dict(counts)


@pytest.mark.parametrize("flags", [(), ("--apply",)], ids=["plan", "apply"])
def test_run_finds_and_judges_of_each_host_what_tier_does(
    flags: tuple[str, ...], spark: SparkSession, sites: dict[str, Site], remote: Path, tmp_path: Path
) -> None:
    hosts = [tiersnap("tier", *site.log_dirs, "--remote", site.remote, *flags) for site in sites.values()]
    rows = [row for host in hosts for row in host.rows if row["segments"] and not row["partition"].startswith("__")]
    place = ("--warehouse", tmp_path / "tables")
    own = () if flags else ("--no-upload",)  # a plan leaves no tables to read
    page = ("--report", tmp_path / "page")
    ran = tiersnap("run", *sources(sites), "--remote", remote, *place, *page, *TOPICS, "--apply", *own)
    told = {
        (row["log_dir"], row["name"]): {name: total["segments"] for name, total in row["verdicts"].items()}
        for row in tiersnap("report", *place).rows
    }
    # The upload makes wrong indexes again, so `tier` calls these READY; `report` says what a broker would copy.
    planned = {(row["log_dir"], row["partition"]): row["verdicts"] for row in rows}
    assert {at: as_uploaded(verdicts) for at, verdicts in told.items()} == planned
    assert findings_of(ran) == set().union(*map(findings_of, hosts))


@pytest.mark.parametrize("column", ["decode", "decode -a", "audit"])
def test_decode_and_audit_end_as_the_page_says(
    column: str, spark: SparkSession, sites: dict[str, Site], tmp_path: Path
) -> None:
    command, *apply = column.split()
    place = ["--limit", 9_999] if command == "audit" else ["--warehouse", tmp_path, *(["--apply"] if apply else [])]
    ran = tiersnap(command, *sources(sites), *map(str, place))
    findings = json.loads(ran.out)["result"]["findings"]
    harmed = {row["log_dir"] for row in ran.rows if row.get("harm", Harm.NONE) != Harm.NONE}
    codes = {}
    for name, site in sites.items():
        below = tuple(f"{log_dir}/" for log_dir in site.log_dirs)
        found = exit_code_of(FindingKind(each["finding_kind"]) for each in findings if each["path"].startswith(below))
        codes[name] = 5 if harmed & {*map(str, site.log_dirs)} else int(found)
    assert codes == {name: told_code(name, column) for name in sites}
