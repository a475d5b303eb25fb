"""The sinks of metrics: a file for node_exporter's textfile collector, and a Prometheus push gateway.

If a sink fails or hangs, the job logs a warning and continues.
"""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from tiersnap.jobs.cli.escaped_text import shown
from tiersnap.jobs.cli.option_types import HTTP_URL, LocalPath
from tiersnap.jobs.cli.options import as_one
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.metrics.prometheus_text import LAST_SUCCESS, Sample, last_success, prometheus

_log = logging.getLogger(__name__)
_READABLE_BY_ALL = 0o644
_OURS = b"# HELP tiersnap_"


@dataclass(frozen=True)
class Sinks:
    """The sinks of a command's metrics."""

    command: str  # label of every sample, so that two commands on one host keep their own samples
    file: Path | None = None  # ends in .prom, which the textfile collector requires
    # URL of a push gateway. It may contain a grouping key: http://host:9091/metrics/job/tiersnap/cluster/eu
    pushgateway: str | None = None
    by_partition: bool = False  # samples by partition instead of by topic

    @property
    def is_any(self) -> bool:
        """Return whether the command has a sink."""
        return self.file is not None or self.pushgateway is not None

    def send(self, samples: Callable[[], Iterable[Sample]]) -> None:
        """Compute the samples and send them to each sink. Log a failure as a warning, and raise nothing."""
        if not self.is_any:
            return
        made: list[Sample] = []
        attempt("metrics", lambda: made.extend(list(map(self._labelled, samples()))))  # list() adds all or none
        if not made:
            return
        _log.info("sending %d samples", len(made))
        if (path := self.file) is not None:
            attempt(f"--metrics-file {path}", lambda: self._write(path, made))
        if (url := self.pushgateway) is not None:
            group = with_path(url, f"metrics/job/tiersnap/command/{self.command}")
            # The gateway keeps metrics that a POST does not contain, such as the last success of an earlier run.
            attempt(
                f"--pushgateway {url}",
                lambda: post(group, prometheus(made).encode(), "text/plain; version=0.0.4"),
            )

    def _labelled(self, sample: Sample) -> Sample:
        return replace(sample, labels={"command": self.command, **sample.labels})

    def _write(self, path: Path, samples: list[Sample]) -> None:
        """Replace the file atomically. If `samples` lacks the metric LAST_SUCCESS, copy it from the old file."""
        written = list(samples)
        if path.exists() and not any(each.name == LAST_SUCCESS for each in samples):
            before = last_success(path.read_text(encoding="utf-8"))
            if before is not None:
                written.append(self._labelled(Sample(LAST_SUCCESS, before)))
        from tiersnap.snapshot.atomic_file import write_atomically

        write_atomically(path, prometheus(written).encode("utf-8"), replace=True)
        path.chmod(_READABLE_BY_ALL)


def check_metrics_file(path: Path) -> None:
    """Raise UsageError if the file does not end in .prom, is in a log directory, or was written by another program."""
    if path.suffix != ".prom":
        raise UsageError(
            f"--metrics-file {path}: the textfile collector reads only files that end in .prom",
            hint="--metrics-file FILE.prom",
        )
    from tiersnap.snapshot.log.refuse_log_dir import refuse_log_dir

    refuse_log_dir(path.parent, "--metrics-file")
    try:
        with path.open("rb") as file:
            begins = file.read(len(_OURS))
    except OSError:
        return  # a missing file is valid; if the file is unreadable, the later write fails and logs the error
    if begins not in (b"", _OURS):
        hint = shlex.join(["--metrics-file", str(path.with_name(f"tiersnap-{path.name}"))])
        raise UsageError(f"--metrics-file {path}: the file exists, and another program wrote it", hint=hint)


def _sinks(metrics_file: Path | None, pushgateway: str | None, metrics_by_partition: bool) -> Sinks:
    if metrics_file is not None:
        check_metrics_file(metrics_file)
    name = click.get_current_context().info_name or ""
    return Sinks(name, metrics_file, pushgateway, metrics_by_partition)


# The command gets the argument `sinks: Sinks`.
metrics_options = as_one(
    "sinks",
    _sinks,
    click.option("--metrics-file", type=LocalPath(dir_okay=False), help="Write metrics to this *.prom file."),
    click.option("--pushgateway", type=HTTP_URL, metavar="URL", help="Push metrics to a Prometheus push gateway."),
    click.option("--metrics-by-partition", is_flag=True, help="Write metrics per partition instead of per topic."),
)


TIMEOUT_SECONDS = 2.0


def attempt(what: str, action: Callable[[], object]) -> None:
    """Run `action`, and return after at most two seconds. Log a failure or a timeout as a warning.

    The action runs in a daemon thread, because a lookup of a host name has no timeout. After a timeout, the thread may
    continue.

    Args:
        what: subject of the warning.
        action: called without arguments.
    """
    failed: list[str] = []

    def run() -> None:
        try:
            action()
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True, name=f"tiersnap {what}")
    try:
        thread.start()
    except RuntimeError as error:  # the host has reached its limit of threads
        failed.append(str(error))
    else:
        thread.join(TIMEOUT_SECONDS)
        if thread.is_alive():
            failed.append(f"no answer within {TIMEOUT_SECONDS:.0f} s")
    if failed:
        _log.warning("%s: %s", what, shown(failed[0]))


def with_path(url: str, path: str) -> str:
    """Return the URL with `path` appended. If the URL has a path of its own, return it unchanged."""
    if urlsplit(url).path.strip("/"):
        return url
    return f"{url.rstrip('/')}/{path}"


def post(url: str, body: bytes, content_type: str) -> None:
    """Send an HTTP POST.

    Raises:
        OSError: the server does not answer within two seconds, or answers with an error.
        ValueError: `url` is no http: or https: URL.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"not an http URL: {url}")
    import urllib.request  # import it here: it loads slowly, and most commands post nothing

    request = urllib.request.Request(url, body, {"Content-Type": content_type}, method="POST")
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
        pass
