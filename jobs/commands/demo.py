"""`tiersnap demo`: run the main job on bundled logs, against an embedded S3 server."""

from __future__ import annotations

import logging
import shutil
from importlib.util import find_spec
from pathlib import Path

import click

from tiersnap.jobs.cli.command import command
from tiersnap.jobs.cli.option_types import LocalPath
from tiersnap.jobs.cli.output import Output
from tiersnap.snapshot.atomic_file import cannot_write
from tiersnap.snapshot.errors import MissingExtraError, SourceNotFoundError, UsageError
from tiersnap.snapshot.installed import EXTRAS, with_extra
from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir

_log = logging.getLogger(__name__)

BUCKET = "tiersnap-demo"
_NEEDED = ("demo", "spark", "s3")  # extras
# The bundled log is of a 2.7.2 broker, so the topic has no id. The demo accepts any id.
TOPIC_IDS = "ledger a1b2c3d4e5f6g7h8i9j0kA\n"


@command(has_output=False)
@click.option(
    "--to",
    "folder",
    type=LocalPath(file_okay=False),
    default="demo-output",
    show_default=True,
    help="Folder for the warehouse and the report. The demo first deletes the output of an earlier demo.",
)
def demo(output: Output, folder: Path) -> int:
    """Run the whole pipeline on bundled real logs against an embedded S3 server, and write a report.

    tiersnap demo
    tiersnap demo --to demo-output

    A broker of Kafka 2.7.2 wrote the logs. A newer broker with tiered storage could tier none of the 12 closed
    segments. The report shows the segments before and after the main job.

    The main job runs twice on one Spark session; the second run has nothing to do. The demo writes only to the output
    folder.
    """
    from tiersnap.jobs.demo.embedded_s3 import embedded_s3, make_bucket
    from tiersnap.jobs.main import run as tiersnap
    from tiersnap.snapshot.report.run_history import read_heads, run_file

    require_extras()
    source = find_logs()
    make_room(folder)
    (folder / "topic-ids.txt").write_text(TOPIC_IDS, encoding="utf-8")
    _log.debug("wrote %s", folder / "topic-ids.txt")
    output.talk("1. The log directory of the broker: tiersnap scan")
    tiersnap(["scan", str(source), "--topic", "ledger"])
    with embedded_s3() as url:
        make_bucket(url, BUCKET)
        remote = [
            *("--remote", f"s3://{BUCKET}/tiers", "--endpoint-url", url, "--region", "us-east-1", "--path-style"),
            *("--topic", "ledger", "--topic-ids", str(folder / "topic-ids.txt"), "--as-of", "2026-11-21T12:45:00Z"),
        ]
        output.talk("2. The plan, with a topic id from topic-ids.txt: tiersnap tier")
        tiersnap(["tier", str(source), *remote, "--report", str(folder / "report")])
        command = ["run", "--source", str(source), *remote, "--warehouse", str(folder / "warehouse"), "--apply"]
        output.talk("3. Decode, snapshot, tier and report: tiersnap run --apply, which first starts a Spark session")
        code = tiersnap([*command, "--report", str(folder / "report")])
        output.talk("4. The same command in the same session; now there is nothing to do")
        # Another folder, so that the report of the first run is kept.
        code = code or tiersnap([*command, "--report", str(folder / "report-again")])
    if not code:
        first, *_ = read_heads(folder / "report")
        output.talk(f"Report of the plan: {folder / 'report' / 'runs' / run_file(first.run_id)}.html")
        output.talk(f"Report after the upload, with the changes: {folder / 'report' / 'index.html'}")
    return code


def require_extras() -> None:
    """Raise MissingExtraError if the S3 server, Spark or the S3 client is not installed."""
    lacking = {}
    for extra in _NEEDED:
        module = EXTRAS[extra][0]
        if find_spec(module) is None:
            lacking[extra] = module
    if lacking:
        raise MissingExtraError(
            f"the demo needs Python packages that are not installed: {' and '.join(lacking.values())}",
            hint=with_extra(",".join(lacking)),
        )


MARKER = ".tiersnap-demo"
_LEFT = frozenset({MARKER, "report", "report-again", "topic-ids.txt", "warehouse"})


def find_logs() -> Path:
    """Return the bundled log directory. Raises SourceNotFoundError if the package does not contain it."""
    logs = Path(__file__).resolve().parents[1] / "demo/demo_data"
    if logs.is_dir():
        return logs
    raise SourceNotFoundError(
        "the bundled logs are not installed", hint="run the demo from a checkout of the source code"
    )


def make_room(folder: Path) -> None:
    """Create the folder, or empty it if an earlier demo filled it, and write the marker file of the demo.

    Raises:
        UsageError: the folder is a log directory, has other files, or cannot be written.
    """
    refuse_log_dir(folder, "--to")
    try:
        if folder.exists() and any(folder.iterdir()):
            if others := _others_in(folder):
                raise UsageError(
                    f"--to {folder}: the folder contains files that no demo made: {others}",
                    hint="give a new folder: the demo deletes only the output of an earlier demo",
                )
            shutil.rmtree(folder)
            _log.info("deleted %s, the output of an earlier demo", folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
    except OSError as error:
        raise cannot_write(folder, error) from error


def _others_in(folder: Path) -> str:
    """Return the names of at most three files that no demo wrote; "" if a demo wrote all files."""
    others = sorted({path.name for path in folder.iterdir()} - _LEFT)
    if others:
        return ", ".join(others[:3])
    if (folder / MARKER).is_file() and not folder.is_symlink():
        return ""
    return "all files"
