"""Rebuild the producer snapshots that Kafka tiered storage needs, and tier nothing without one.

The names for scripts and notebooks; docs/python.md has three scripts.

    import tiersnap

    for scanned in tiersnap.scan("/var/lib/kafka/data"):
        print(scanned.examination.partition.name, [each.verdict for each in scanned.readiness])

Each name is imported when it is first asked for (PEP 562): `import tiersnap` starts neither Spark nor numba nor boto3.
`tier` on S3 needs the extra `s3`, `run` and `KafkaSegmentDataSource` the extra `spark`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tiersnap.snapshot import __version__

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.outcome import RunOutcome
    from tiersnap.jobs.pipeline.run import run
    from tiersnap.jobs.pipeline.settings import RunSettings
    from tiersnap.jobs.pipeline.source import KafkaSegmentDataSource
    from tiersnap.remote_storage.cluster.client import Cluster
    from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
    from tiersnap.remote_storage.publish.tier_log_dir import tier
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.remote_storage.stores.s3_settings import S3Settings
    from tiersnap.remote_storage.stores.store_settings import StoreSettings
    from tiersnap.remote_storage.upload.tier_host import HostPartition
    from tiersnap.snapshot.errors import TiersnapError
    from tiersnap.snapshot.formats.snapshot_file import ENTRY_DTYPE
    from tiersnap.snapshot.gate.judge import Readiness
    from tiersnap.snapshot.gate.judge_partition import JudgedSnapshot, SegmentReadiness
    from tiersnap.snapshot.gate.trusted import SnapshotVerdict
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.host.scanned import Scanned
    from tiersnap.snapshot.host.whole_log_dir import repair, scan
    from tiersnap.snapshot.log.findings import Finding
    from tiersnap.snapshot.log.log_dir import Partition, Segment
    from tiersnap.snapshot.producer_snapshots import read_snapshot, write_snapshot
    from tiersnap.snapshot.repair.partition import Repaired
    from tiersnap.snapshot.repair.repair_action import PlannedSnapshot
    from tiersnap.snapshot.replay.comparison import Comparison
    from tiersnap.snapshot.replay.examine import Examination
    from tiersnap.snapshot.replay.expiry import ReplayOptions
    from tiersnap.snapshot.replay.facts import PartitionFacts, SegmentFacts
    from tiersnap.snapshot.replay.remote_listing import CopyEvent

__all__ = [
    "ENTRY_DTYPE",
    "Cluster",
    "Comparison",
    "CopyEvent",
    "Examination",
    "Finding",
    "HostPartition",
    "JudgedSnapshot",
    "KafkaSegmentDataSource",
    "ObjectStore",
    "Partition",
    "PartitionFacts",
    "PlannedSnapshot",
    "PublishUploads",
    "Readiness",
    "Repaired",
    "ReplayOptions",
    "RunOutcome",
    "RunSettings",
    "S3Settings",
    "Scanned",
    "Segment",
    "SegmentFacts",
    "SegmentReadiness",
    "SnapshotVerdict",
    "StoreSettings",
    "TiersnapError",
    "Verdict",
    "__version__",
    "read_snapshot",
    "repair",
    "run",
    "scan",
    "tier",
    "write_snapshot",
]

_MODULES = {
    "tiersnap.jobs.pipeline.outcome": ("RunOutcome",),
    "tiersnap.jobs.pipeline.run": ("run",),
    "tiersnap.jobs.pipeline.settings": ("RunSettings",),
    "tiersnap.jobs.pipeline.source": ("KafkaSegmentDataSource",),
    "tiersnap.remote_storage.cluster.client": ("Cluster",),
    "tiersnap.remote_storage.publish.publish_uploads": ("PublishUploads",),
    "tiersnap.remote_storage.publish.tier_log_dir": ("tier",),
    "tiersnap.remote_storage.stores.object_store": ("ObjectStore",),
    "tiersnap.remote_storage.stores.s3_settings": ("S3Settings",),
    "tiersnap.remote_storage.stores.store_settings": ("StoreSettings",),
    "tiersnap.remote_storage.upload.tier_host": ("HostPartition",),
    "tiersnap.snapshot.errors": ("TiersnapError",),
    "tiersnap.snapshot.formats.snapshot_file": ("ENTRY_DTYPE",),
    "tiersnap.snapshot.gate.judge": ("Readiness",),
    "tiersnap.snapshot.gate.judge_partition": ("JudgedSnapshot", "SegmentReadiness"),
    "tiersnap.snapshot.gate.trusted": ("SnapshotVerdict",),
    "tiersnap.snapshot.gate.verdict": ("Verdict",),
    "tiersnap.snapshot.host.scanned": ("Scanned",),
    "tiersnap.snapshot.host.whole_log_dir": ("repair", "scan"),
    "tiersnap.snapshot.log.findings": ("Finding",),
    "tiersnap.snapshot.log.log_dir": ("Partition", "Segment"),
    "tiersnap.snapshot.producer_snapshots": ("read_snapshot", "write_snapshot"),
    "tiersnap.snapshot.repair.partition": ("Repaired",),
    "tiersnap.snapshot.repair.repair_action": ("PlannedSnapshot",),
    "tiersnap.snapshot.replay.comparison": ("Comparison",),
    "tiersnap.snapshot.replay.examine": ("Examination",),
    "tiersnap.snapshot.replay.expiry": ("ReplayOptions",),
    "tiersnap.snapshot.replay.facts": ("PartitionFacts", "SegmentFacts"),
    "tiersnap.snapshot.replay.remote_listing": ("CopyEvent",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what it is, the imports above say
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
