"""docs/exit-codes.md: how every command over log directories ends in every situation of a host.

`python -m tests.unit.test_exit_codes` writes it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.reference.command import Ran, tiersnap
from tests.reference.exit_code_reasons import REASONS, WHY, WHY_REMOTE, codes_in, grouped, worst
from tests.reference.fleet_joins import Row, Tables, partition_change
from tests.reference.local_facts import write_tables
from tests.reference.privileges import run_obeying_modes
from tests.reference.situations import NOW, SITUATIONS, CannotBeLaidOutError, Site
from tests.unit import test_exit_codes_remote as remote
from tiersnap.jobs.pipeline.before_spark import discover, run_input
from tiersnap.jobs.pipeline.decoding import WANTED, DecodeSegments
from tiersnap.jobs.pipeline.listing import FOLDERS, ListPartitions
from tiersnap.jobs.pipeline.outcome import RunOutcome
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.exit_code import exit_code_of
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.findings import FindingKind

pytestmark = pytest.mark.unit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exit-codes.md"
HEAD = """# Exit codes

Read this page if a command ends with an exit code that you did not expect. The tables show the exit code of each
command in each tested situation. [runbook.md](runbook.md#exit-codes) explains the codes.

In the tables, *-r* means with `--remote`, *-a* with `--apply`, *-b* with `--bootstrap-server`, and *plain* without
these options. A name alone stands for all forms of the command. *Not called* means that the test does not run the
command.

If a command does not examine a situation, it ends with 0. `verify` examines existing files only, and `doctor` reads
no segment. `dump`, `producers`, `transactions`, `simulate`, `decode` and `audit` compare no file with the log.
`repair`, `tier`, `run`, `unblock` and `mend` end with 0 if they clear the situation themselves. A plan ends with the
exit code of the same command with `--apply`. But a plan does not check for a running broker or a full disk.

## Log directories

| situation | exit codes | what it is |
| --- | --- | --- |
"""
NOW_MS = 1_795_265_100_000  # NOW
Words = Callable[[Site], list[str | Path]]
Task = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def _words(command: str, *options: str, remote: bool = False) -> Words:
    """The command over the log directories of a site; with `remote` it asks remote storage."""

    def of(site: Site) -> list[str | Path]:
        return [*command.split(), *site.log_dirs, *(("--remote", site.remote) if remote else ()), *options]

    return of


def _dump(site: Site) -> list[str | Path]:
    """The logs of the partition, none where there is no partition."""
    folders = list(site.log_dirs[0].glob("[a-z]*-0"))
    files = [path for folder in folders for path in sorted(folder.glob("*.log")) or [folder / f"{0:020d}.log"]]
    return ["dump", *files] if files else []


# In the order in which they are called: what writes comes last.
COMMANDS: dict[str, Words] = {
    "doctor": _words("doctor", *NOW),
    "doctor -r": _words("doctor", *NOW, remote=True),
    "scan": _words("scan", *NOW),
    "scan -r": _words("scan", *NOW, remote=True),
    "verify": _words("verify", *NOW),
    "verify -r": _words("verify", *NOW, remote=True),
    "dump": _dump,
    "producers": _words("producers", *NOW),
    "transactions list": _words("transactions list", *NOW),
    "find-hanging": _words("transactions find-hanging", "--now", "2026-11-23T12:45:00Z"),
    "simulate": _words("simulate", *NOW),
    "simulate --risk": _words("simulate", "--risk", *NOW),
    "repair": _words("repair", *NOW),
    "repair -r": _words("repair", *NOW, remote=True),
    "tier": _words("tier", *NOW, remote=True),
    "collect": lambda site: ["collect", *site.log_dirs, "--to", site.remote / "collected", *NOW],
    "collect -a": lambda site: ["collect", *site.log_dirs, "--to", site.remote / "collected", *NOW, "--apply"],
    "tier -a": _words("tier", *NOW, "--apply", remote=True),
    "repair -a": _words("repair", *NOW, "--apply"),
}
# `run`, by the `tier` that does the same on one host.
RUNS = {"run": "tier", "run -a": "tier -a"}
DECODES = ("decode", "decode -a", "audit")
COLUMNS = (*COMMANDS, *RUNS, *DECODES, "report")


def called(site: Site) -> Iterator[int | None]:
    """The exit code of each command, in their order, and of RUNS; None where there is nothing to call it with."""
    done: dict[str, Ran] = {}
    reported = code_of_report(site)
    for name, words_of in COMMANDS.items():
        if words := words_of(site):
            done[name] = tiersnap(*words)
            assert "Traceback" not in done[name].err, done[name].err
        yield done[name].exit_code if words else None
    for name in ("tier", "collect"):
        assert_plan_is_true(done[name], done[f"{name} -a"])
    assert not (done["tier -a"].exit_code and "nothing to do" in done["tier -a"].err), done["tier -a"].err
    for name, of_host in RUNS.items():
        yield code_of_run(site, done[of_host], apply=name.endswith("-a"))
    yield from codes_of_decode(site)
    yield reported


def assert_plan_is_true(plan: Ran, applied: Ran) -> None:
    """A plan names --apply as the next step if and only if that finds something to do."""
    if plan.exit_code not in (2, 3) and not json.loads(applied.out)["errors"]:
        has_next = re.search("; next: tiersnap .* --apply$", plan.err, re.MULTILINE) is not None
        did_nothing = any(words in applied.err for words in ("nothing to do: ", "no object was written"))
        assert has_next != did_nothing, plan.err + applied.err


def code_of_run(site: Site, host: Ran, *, apply: bool) -> int | None:
    """The exit code of `run` that finds what `tier` found there; None if that refused what Spark would list."""
    settings = RunSettings(tuple(map(str, site.log_dirs)), str(site.remote), str(site.remote / "tables"), apply=apply)
    try:
        found = run_input(settings, None, None).found.findings
    except TiersnapError as error:
        return int(error.exit_code)
    said = json.loads(host.out)
    if said["errors"]:
        return None
    outcome = RunOutcome()
    kinds = {FindingKind(each["finding_kind"]) for each in said["result"]["findings"]}
    outcome.kinds = kinds | {each.finding_kind for each in found}
    scanned = tiersnap("scan", *site.log_dirs, *NOW, "--remote", site.remote)
    outcome.replicas_without_producers_count = sum(row["known"] is not None for row in scanned.rows)
    for each in host.rows:
        for verdict, count in each["verdicts"].items():
            outcome.verdicts[Verdict(verdict)] = outcome.verdicts.get(Verdict(verdict), 0) + count
    return int(exit_code_of(outcome.problems(settings)))


def codes_of_decode(site: Site) -> Iterator[int]:
    """Of DECODES: the plan reads no segment; an audit ends as a decode does where it finds no harm."""
    try:
        found = discover(map(str, site.log_dirs), None)
    except TiersnapError as error:
        yield from [int(error.exit_code)] * len(DECODES)
        return
    folders = [{"log_dir": log_dir, "folder": folder, "records": []} for log_dir, folder in found.folders]
    listed = _rows(ListPartitions(), folders, FOLDERS)
    kinds = [each.finding_kind for each in found.findings]
    kinds += [FindingKind(each["finding_kind"]) for row in listed for each in row["findings"]]
    changed = [partition_change(row, Tables(), options_digest=0, check_crc=True) for row in listed]
    wanted = [{**change, **segment} for change in changed for segment in change["wanted"]]
    decoded = _rows(DecodeSegments(True, 1), wanted, WANTED)
    yield int(exit_code_of(kinds))
    kinds += [FindingKind(row["finding_kind"]) for row in decoded if row["finding_kind"] is not None]
    yield from [int(exit_code_of(kinds))] * 2


def code_of_report(site: Site) -> int | None:
    """The exit code of `report` over the facts of a replay without remote storage; None if there are no facts."""
    tables = site.remote.with_name("reported")
    try:
        for log_dir in site.log_dirs:
            write_tables(tables, log_dir, run=1, now=NOW_MS)
    except (OSError, TiersnapError):
        return None
    if not tables.exists():
        return None
    return tiersnap("report", "--warehouse", tables, *NOW).exit_code


def _rows(task: Task, rows: list[Row], schema: pa.Schema) -> list[Row]:
    return [row for batch in task(iter([pa.RecordBatch.from_pylist(rows, schema)])) for row in batch.to_pylist()]


def codes_of(name: str, at: Path) -> list[int | None]:
    """The exit code of each command in a situation.

    Raises:
        CannotBeLaidOutError: this process may not do what it needs.
    """
    with SITUATIONS[name](at) as site:
        if not site.obeys_modes:
            return list(called(site))
        places = json.dumps([list(map(str, site.log_dirs)), str(site.remote)])
        done = run_obeying_modes("-m", "tests.unit.test_exit_codes", places)
        assert done.returncode == 0, done.stderr
        found: list[int | None] = json.loads(done.stdout)
        return found


def row(name: str, codes: list[int | None]) -> str:
    """A line of the table."""
    said = (SITUATIONS[name].__doc__ or "").splitlines()[0]
    return f"| {name} | {grouped(COLUMNS, codes)} | {said} |\n"


def told(name: str, columns: Sequence[str]) -> list[int | None]:
    """Return the code of each command as the page has it."""
    (line,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |"))
    return codes_in(line.split(" | ")[1], columns)


def told_code(name: str, column: str) -> int:
    """What the page says."""
    code = told(name, COLUMNS)[COLUMNS.index(column)]
    assert code is not None
    return code


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_command_ends_as_the_page_says(name: str, tmp_path: Path) -> None:
    try:
        codes = codes_of(name, tmp_path)
    except CannotBeLaidOutError as error:
        pytest.skip(str(error))
    (line,) = (line for line in PAGE.read_text().splitlines(keepends=True) if line.startswith(f"| {name} |"))
    assert row(name, codes) == line
    assert told(name, COLUMNS) == codes


def test_the_page_has_these_situations() -> None:
    lines = PAGE.read_text().removeprefix(HEAD).partition(remote.HEAD)[0].splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == list(SITUATIONS)


@pytest.mark.parametrize("name", [*WHY, *WHY_REMOTE])
def test_each_reason_is_of_a_code_that_differs(name: str) -> None:
    """A command that learns to ask loses its letter; one that differs needs one."""
    columns = COLUMNS if name in WHY else tuple(remote.COMMANDS)
    codes = told(name, columns)
    differing = {column for column, code in zip(columns, codes, strict=True) if code not in (None, worst(codes))}
    named = [each for names in {**WHY, **WHY_REMOTE}[name].values() for each in names.split(", ")]
    assert sorted(named) == sorted(differing)


def test_each_code_that_differs_has_a_reason() -> None:
    for name in (*SITUATIONS, *remote.SITUATIONS):
        codes = told(name, COLUMNS if name in SITUATIONS else tuple(remote.COMMANDS))
        assert name in {**WHY, **WHY_REMOTE} or len(set(codes) - {None}) == 1, name
    assert {letter for why in (*WHY.values(), *WHY_REMOTE.values()) for letter in why} == REASONS.keys()


def _page() -> str:
    lines = []
    for name in SITUATIONS:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(row(name, codes_of(name, Path(folder))))
    return HEAD + "".join(lines) + remote.table()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        PAGE.write_text(_page())
    else:
        log_dirs, place = json.loads(sys.argv[1])
        print(json.dumps(list(called(Site(tuple(map(Path, log_dirs)), Path(place))))))
