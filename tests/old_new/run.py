"""`python -m tests.old_new.run OLD [scenario …]`: exit code 1 if a difference is not named in intended.toml."""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.old_new import inputs
from tests.old_new.normal import Ids, text
from tests.old_new.observed import differences, of_folder
from tests.old_new.revisions import environment
from tests.old_new.scenarios import Scenario, host_scenarios, spark_scenarios
from tiersnap.snapshot.errors import ExitCode

INTENDED = Path(__file__).with_name("intended.toml")
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass
class Side:
    """One revision in one workspace.

    Attributes:
        said: what each command printed and how it ended, and what lay in the workspace behind the last one.
    """

    python: Path
    workspace: Path
    said: dict[str, str] = field(default_factory=dict)

    def run(self, scenario: Scenario, logs: Path) -> None:
        """Type the commands, and look at what they left."""
        places = {name: self.workspace / name for name in ("logs", "remote", "out", "warehouse", "disk")}
        inputs.copy(logs, places["logs"])
        places["out"].mkdir()
        places["disk"].mkdir()
        for found in logs.glob("meta.properties"):
            shutil.copy(found, places["disk"])
        ids = Ids(_ids_below(logs))
        paths = {str(path): f"<{name}>" for name, path in places.items()} | {str(self.workspace): "<workspace>"}
        for number, command in enumerate(scenario.commands, 1):
            line = command.format(**places)
            done = self._type(line)
            if done.returncode == ExitCode.USAGE:
                raise SystemExit(f"what is refused compares nothing: {line}\n{done.stderr}")
            self.said[f"{number} exit code"] = str(done.returncode)
            self.said[f"{number} stdout"] = text(done.stdout, paths, ids)
            self.said[f"{number} stderr"] = text(done.stderr, paths, ids)
        for name, folder in places.items():
            if folder.exists():
                self.said |= {f"{name}/{file}": found for file, found in of_folder(folder, paths, ids)}

    def _type(self, line: str) -> subprocess.CompletedProcess[str]:
        words = [each for word in shlex.split(line) for each in _expanded(word)]
        environment_of_it = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ},
            "COLUMNS": "200",
            "TZ": "UTC",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        # By name: the first line of the script names the worktree that installed it, which may be gone.
        command = [str(self.python / "bin" / "python"), str(self.python / "bin" / "tiersnap"), *words]
        return subprocess.run(
            command, cwd=self.workspace, env=environment_of_it, capture_output=True, text=True, check=False
        )


def _expanded(word: str) -> list[str]:
    """The paths that a word of the shell stands for, or the word."""
    if "*" not in word or not word.startswith("/"):
        return [word]
    return sorted(str(path) for path in Path("/").glob(word.removeprefix("/")))


def _ids_below(logs: Path) -> set[str]:
    """Ids of topics, directories and clusters, which both sides print."""
    files = [*logs.rglob("partition.metadata"), *logs.rglob("meta.properties")]
    return {word for path in files for word in _TOPIC_ID.findall(path.read_text(errors="replace"))}


def compare(
    scenario: Scenario,
    logs: Path,
    old: Path,
    new: Path,
    workspace: Path,
    reworded: Sequence[tuple[re.Pattern[str], str]] = (),
) -> Iterator[str]:
    """Yield the differences of one scenario over one log directory, after `reworded` changed the old texts."""
    sides = []
    for python, name in ((old, "old"), (new, "new")):
        folder = workspace / "here"  # one path for both, since what is stored names it
        folder.mkdir(parents=True)
        side = Side(python, folder)
        side.run(scenario, logs)
        folder.rename(workspace / name)
        sides.append(side)
    yield from differences({name: _reworded(each, reworded) for name, each in sides[0].said.items()}, sides[1].said)


def _reworded(said: str, reworded: Sequence[tuple[re.Pattern[str], str]]) -> str:
    for old, new in reworded:
        said = old.sub(new, said)
    return said


def rewordings() -> list[tuple[re.Pattern[str], str]]:
    """Regular expressions of the old revision's sentences, and the new revision's sentences."""
    entries = tomllib.loads(INTENDED.read_text(encoding="utf-8")).get("reworded", [])
    return [(re.compile(entry["old"]), entry["new"]) for entry in entries]


def intended() -> list[tuple[str, str]]:
    """(pattern, reason) of differences that are meant: `scenario / what: difference`, as fnmatch has it."""
    entries = tomllib.loads(INTENDED.read_text(encoding="utf-8")).get("difference", [])
    return [(entry["is"], entry["because"]) for entry in entries]


def main() -> int:
    """Run all scenarios, or those whose names begin as given."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("old", help="a git revision")
    options.add_argument("scenario", nargs="*", help="names, or how they begin")
    options.add_argument("--spark", action="store_true", help="the scenarios on Spark as well")
    options.add_argument("--keep", type=Path, help="leave the workspaces in this folder")
    given = options.parse_args()
    old, new = environment(given.old), environment(".")
    meant, reworded, found, unmeant = intended(), rewordings(), 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        place = given.keep or Path(temporary)
        made = inputs.make(place / "inputs")
        scenarios = [*host_scenarios(), *(spark_scenarios() if given.spark else ())]
        for scenario in scenarios:
            if given.scenario and not any(scenario.name.startswith(name) for name in given.scenario):
                continue
            for name in scenario.logs:
                began = time.monotonic()
                workspace = place / re.sub(r"\W+", "-", f"{scenario.name} {name}")
                for each in compare(scenario, made[name], old, new, workspace, reworded):
                    line = f"{scenario.name} over {name} / {each}"
                    reason = next((because for pattern, because in meant if fnmatch.fnmatch(line, pattern)), None)
                    found, unmeant = found + 1, unmeant + (reason is None)
                    print(f"{'intended' if reason else 'DIFFERENT'}: {line}" + (f" ({reason})" if reason else ""))
                print(f"{scenario.name} over {name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
    print(f"{found} differences, {unmeant} of them not intended")
    return 1 if unmeant else 0


if __name__ == "__main__":
    sys.exit(main())
