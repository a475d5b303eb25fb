"""What `make lint` checks that no linter knows: lengths of files, words that must not be in the project, hashes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

from tests.house_measure import PACKAGES, ROOT, measure, worse

LONGEST = 400
# They name what they forbid.
_EXAMPLES = ("tests/house_rules.py", "tests/unit/test_house_rules.py")

# Anywhere: neither exists on Spark Connect.
_JVM = re.compile(r"\._jvm\b|\._jdf\b")
# In the product. The job is DataFrames over Arrow, on any session (ADR 7).
_NOT_ON_CONNECT = re.compile(r"\.rdd\b|\bsparkContext\b|\bSparkContext\b|\._jsc\b|\._sc\b|\._jsparkSession\b")
_PANDAS = re.compile(r"\btoPandas\b|^\s*(import|from) pandas\b")
# What Spark sends to the driver must not grow with segments, batches or producers.
_TO_DRIVER = re.compile(r"\.collect\(\)|\.toArrow\(\)|\.toLocalIterator\(")
_MAY_COLLECT = {
    "jobs/pipeline/totals.py": "a few rows of sums",
    "jobs/pipeline/replaying.py": "names of at most a hundred partitions that are replayed",
    "jobs/pipeline/class_archive.py": "ten rows that nobody keeps",
    "jobs/pipeline/damage.py": "counts by kind, and the first thousand findings",
    "jobs/pipeline/decoding.py": "sums of the segments to decode",
    "jobs/pipeline/counts.py": "two rows of sums, and the first few findings and failures",
    "jobs/pipeline/publishing.py": "the partitions and segments that the driver tells brokers of",
    "jobs/pipeline/run_replay.py": "how many partitions are replayed",
    "jobs/pipeline/run_verdicts.py": "sums by partition and verdict",
    "jobs/pipeline/decode_job.py": "the number of the newest decode",
    "jobs/pipeline/checking.py": "counts by verdict, the first thousand unsound segments, and a sum a partition",
    "jobs/pipeline/audit/job.py": "counts by kind, and the worst findings, as many as --limit says",
    "jobs/pipeline/risk.py": "sums by state, and so many of the worst rows as were asked for",
    "jobs/pipeline/simulate.py": "sums by kind of answer",
    "jobs/pipeline/warehouse.py": "commits of runs that were killed",
    "jobs/pipeline/summary.py": "runs of the few partitions with details",
}
# "1 segments": what stands before the noun may be a 1, whatever it was when the line was written.
_COUNT = re.compile(
    r"\{(?!count_of|many)[^{}]+\} (?:segments|snapshots|partitions|producers|findings|failures|copies|records|entries"
    r"|batches|transactions|objects)\b"
)
# Calls that act on what lies outside this process: files, locks, sockets, programs, buckets, clusters, Spark.
_ACTS = {
    *(f"os.{name}" for name in ("open", "replace", "rename", "link", "unlink", "mkdir")),
    *("fcntl.flock", "fcntl.lockf", "shutil.rmtree", "shutil.move", "subprocess.run", "subprocess.Popen"),
    *("socket.create_connection", "urllib.request.urlopen", "boto3.client", "boto3.session.Session", "write_deltalake"),
}
_ACTING_METHODS = {
    *("write_text", "write_bytes", "touch", "mkdir", "unlink", "sendto"),
    *("put_object", "delete_object", "delete_objects", "create_multipart_upload", "complete_multipart_upload"),
    *("produce", "incremental_alter_configs", "getOrCreate", "executeCompaction", "vacuum", "save"),
    *("put_if_absent", "put_file_if_absent", "replace_if"),
}
# First words of docstrings that say neither what a function does nor what a class is.
_VAGUE = {"What", "Whatever", "Who", "Whoever", "Whose", "How", "Whether", "Why", "Where", "When", "Which", "If", "Of"}
_MAY_ACT_SILENTLY = {
    "remote_storage/stores/paced_store.py": "hands on to a store that logs",
    "jobs/cli/command.py": "write_text of click's HelpFormatter writes to memory",
}


def problems() -> list[str]:
    """One line a problem."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = worse(measure())
    classes: dict[str, str] = {}
    for name in listed.split():
        path = ROOT / name
        if not path.exists() or name in _EXAMPLES:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        is_product = name.split("/")[0] in PACKAGES
        if is_product and len(lines) > LONGEST:
            found.append(f"{name}: {len(lines)} lines, at most {LONGEST}: split it by concept")
        if is_product:
            found += [f"{name}: {problem}" for problem in problems_of_logger(name, "\n".join(lines))]
            found += [f"{name}: {problem}" for problem in problems_of_classes(name, "\n".join(lines), classes)]
            found += [f"{name}:{problem}" for problem in problems_of_docstrings("\n".join(lines))]
        if re.fullmatch(r"jobs/commands/((?!_)\w+|\w+/__init__)\.py", name):
            found += [f"{name}: {problem}" for problem in problems_of_command("\n".join(lines))]
        for number, line in enumerate(lines, 1):
            found += [f"{name}:{number}: {problem}" for problem in problems_of(name, line, is_product=is_product)]
    return [*found, *(f"uv.lock: {problem}" for problem in problems_of_lock((ROOT / "uv.lock").read_text("utf-8")))]


def problems_of_lock(text: str) -> list[str]:
    """What a lock file lets in unchecked: a download without its hash, a package from elsewhere than PyPI."""
    found = []
    for package in tomllib.loads(text)["package"]:
        source = package["source"]
        files = [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
        if source not in ({"registry": "https://pypi.org/simple"}, {"editable": "."}):
            found.append(f"{package['name']} comes from {source}")
        elif "registry" in source and not files:
            found.append(f"{package['name']} has no files")
        for file in files:
            if not re.fullmatch("sha256:[0-9a-f]{64}", file.get("hash", "")):
                found.append(f"{package['name']}: {file.get('url')} has no hash")
    return found


def problems_of_classes(name: str, text: str, seen: dict[str, str]) -> list[str]:
    """Public classes of a module whose names another one has; adds its own to `seen`, the module of each class."""
    classes = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    twice = [f"{each} is a class of {seen[each]} too: one concept, one name" for each in classes if each in seen]
    seen |= dict.fromkeys(classes, name)
    return twice


def problems_of_docstrings(text: str) -> list[str]:
    """Return docstrings that begin with no command and no noun, by line."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented) and ast.get_docstring(node)]
    first = [(node.body[0].lineno, (ast.get_docstring(node) or "").split()[0]) for node in nodes]
    return [
        f"{line}: a docstring begins with a command or a noun, not {word!r}" for line, word in first if word in _VAGUE
    ]


def problems_of_command(text: str) -> list[str]:
    """What is wrong with a file of jobs/commands: a command is one file, and such a file is one command."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    decorators = [ast.unparse(each).split("(")[0] for function in functions for each in function.decorator_list]
    commands = [each for each in decorators if each.split(".")[-1] in ("command", "group")]
    return [] if commands else ["no command in it: only commands lie in jobs/commands"]


def problems_of_logger(name: str, text: str) -> list[str]:
    """What acts says so in the log; what only computes has no logger."""
    tree = ast.parse(text)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = {ast.unparse(call) for call in calls}
    acts = named & _ACTS or {call.attr for call in calls if isinstance(call, ast.Attribute)} & _ACTING_METHODS
    logs = any(each.startswith("_log.") for each in named)
    if acts and not logs and name not in _MAY_ACT_SILENTLY:
        return [f"{', '.join(sorted(acts))} is called and nothing is logged"]
    return ["_log is made and not used"] if "logging.getLogger(__name__)" in text and not logs else []


def problems_of(name: str, line: str, *, is_product: bool) -> list[str]:
    """What is wrong with one line of a file."""
    rules = [(_JVM, "a JVM handle does not exist on Spark Connect")]
    if is_product:
        rules += [
            (_NOT_ON_CONNECT, "RDDs and the Spark context do not exist on Spark Connect"),
            (_PANDAS, "rows travel as Arrow, not as pandas"),
            (_COUNT, "count_of of snapshot/units.py puts a count before a noun"),
        ]
        if name not in _MAY_COLLECT:
            places = ", ".join(_MAY_COLLECT)
            rules.append((_TO_DRIVER, f"rows are brought to the driver in {places} alone"))
    return [problem for pattern, problem in rules if pattern.search(line)]


if __name__ == "__main__":
    lines = problems()
    print("\n".join(lines), end="\n" if lines else "")
    sys.exit(bool(lines))
