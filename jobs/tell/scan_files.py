"""What `scan` leaves besides its rows: the readiness page and metrics. Most scans need neither, nor their modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tiersnap.jobs.output import Output
from tiersnap.jobs.telemetry.metrics import Sinks
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.readiness.scanned import Scanned


class ScanFiles:
    """Takes in partitions as they are scanned."""

    def __init__(self, report: Path | None, sinks: Sinks) -> None:
        """`report` is the folder of the page, None for no page."""
        self._report, self._sinks = report, sinks
        self._page = self._metrics = None
        if report is not None:
            from tiersnap.snapshot.report.of_scan import ScanPage

            self._page = ScanPage()
        if sinks.is_any:
            from tiersnap.snapshot.metrics.of_scan import ScanMetrics

            self._metrics = ScanMetrics(by_partition=sinks.by_partition)

    def add(self, log_dir: str, scanned: Scanned) -> None:
        """One partition."""
        if self._metrics is not None:
            self._metrics.add(scanned)
        if self._page is not None:
            self._page.add(log_dir, scanned)

    def write(self, output: Output, log_dirs: Sequence[str], now: int, code: ExitCode) -> None:
        """All of it, now that the scan has ended with `code`; `now` is in epoch ms."""
        if (metrics := self._metrics) is not None:
            self._sinks.send(lambda: metrics.samples(code))
        if self._page is not None and self._report is not None:
            from tiersnap.jobs.pipeline.settings import new_run_id
            from tiersnap.jobs.reporting.host_run import host_run

            run = host_run(new_run_id(), log_dirs, now=now, source=", ".join(log_dirs))
            self._page.write(self._report, run)
            output.talk(f"wrote {self._report}/index.html, readiness.json, readiness.csv and what they point to")
