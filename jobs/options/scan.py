"""Options that say how partitions are judged: by which clock, and by which of remote storage and cluster besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiersnap.jobs.options import common as params
from tiersnap.jobs.options.copy_tasks import ToldBy, scanning_cluster_options
from tiersnap.jobs.options.remote_view import RemoteView, remote_view_options
from tiersnap.jobs.options.together import as_one
from tiersnap.jobs.output import Output
from tiersnap.snapshot.log.selection import NamedLogDir, Selection
from tiersnap.snapshot.readiness.scanned import Scanner


@dataclass(frozen=True)
class ScanRequest:
    """How to judge.

    Attributes:
        now: epoch ms.
        producer_expiration: ms; None if producers never expire.
        view: of remote storage, if it is to be asked.
        told_by: the cluster, if it is to be asked.
    """

    now: int
    producer_expiration: int | None
    check_crc: bool
    view: RemoteView
    told_by: ToldBy

    def scanner(self, log_dirs: Sequence[NamedLogDir], selection: Selection, output: Output) -> Scanner:
        """Return what judges partitions of these log directories; what is to be asked is asked first."""
        inventory = self.view.inventory(self.now, self.producer_expiration)
        tasks = self.told_by.about(log_dirs, selection.topic, output).tasks
        return Scanner(inventory, self.now, self.producer_expiration, self.check_crc, tasks)


scan_options = as_one(
    "request",
    ScanRequest,
    params.crc_option,
    params.producer_expiration_option,
    params.now_option,
    remote_view_options("Also ask remote storage what is tiered: s3://bucket/prefix, or a directory."),
    scanning_cluster_options,
)
