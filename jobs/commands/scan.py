"""`tiersnap scan`: what a log directory holds and what stands in the way of tiering it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from tiersnap.jobs.again import host_commands_of_scan
from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.log_dirs import log_dirs_argument, selection_options
from tiersnap.jobs.options.paths import LocalPath
from tiersnap.jobs.options.scan import ScanRequest, scan_options
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.telemetry.metrics import Sinks, metrics_options
from tiersnap.jobs.tell.scan import show
from tiersnap.jobs.tell.scan_files import ScanFiles
from tiersnap.snapshot.log.disk_findings import findings_of
from tiersnap.snapshot.log.selection import Selection, count, open_log_dirs, selected_of
from tiersnap.snapshot.readiness.scan_totals import ScanTotals
from tiersnap.snapshot.readiness.scanned import Scanned


@click.command()
@log_dirs_argument("LOGDIR")
@selection_options
@scan_options
@click.option(
    "--report",
    type=LocalPath(file_okay=False),
    help="Also write the readiness page, JSON and CSV here.",
)
@click.option("--segments", is_flag=True, help="A row a segment instead of a row a partition.")
@metrics_options
@params.output_option
@click.pass_obj
def scan(
    output: Output,
    log_dirs: tuple[str, ...],
    selection: Selection,
    request: ScanRequest,
    report: Path | None,
    segments: bool,
    sinks: Sinks,
) -> int:
    """List segments, snapshots (present, missing, suspect, corrupt) and verdicts.

    LOGDIR is an entry of a broker's log.dirs: a path, or a file:, s3: or hdfs: URI; several may be given, with blanks
    or commas between them, or as a glob. Reading is safe while the broker runs. Without --remote nothing is known of
    what is tiered already. Exits 5 when something is damaged, 6 when something may not be read, 4 when a segment waits
    for a snapshot, an index, leader epochs or a topic id, 0 otherwise.
    """
    opened = open_log_dirs(log_dirs)
    scanner = request.scanner(opened, selection, output)
    totals = ScanTotals(findings_of(opened), scanner.errors, was_asked=scanner.tasks is not None)
    files = ScanFiles(report, sinks)
    progress = Progress(output, "scanning", count(opened, selection))

    def scanned() -> Iterator[tuple[str, Scanned]]:
        for each, partition in progress.watch(selected_of(opened, selection)):
            found = scanner.scan(each.log_dir.filesystem, partition)
            totals.add(found)
            files.add(each.uri, found)
            yield each.uri, found

    show(output, opened, scanned(), totals, host_commands_of_scan(log_dirs, request.view.remote), segments=segments)
    files.write(output, [each.uri for each in opened], request.now, totals.exit_code)
    return totals.exit_code
