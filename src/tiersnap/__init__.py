"""Rebuild the producer snapshots that Kafka tiered storage needs, and tier nothing without one.

What scripts and notebooks need is here by name:

    import tiersnap

    for partition in tiersnap.open_log_dir("/var/lib/kafka/data").partitions(): ...
    outcome = tiersnap.run(spark, tiersnap.RunSettings(sources=(...), remote="s3://...", warehouse="..."))

Each name is imported when it is first asked for (PEP 562): `import tiersnap` starts neither Spark nor numba nor boto3,
and what a name needs beyond the core comes with the extras `[spark]` and `[s3]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tiersnap.snapshot import __version__

if TYPE_CHECKING:
    from tiersnap.jobs.pipeline.run import run
    from tiersnap.jobs.pipeline.settings import RunSettings
    from tiersnap.jobs.pipeline.source import KafkaSegmentDataSource
    from tiersnap.remote_storage.stores.open_store import open_store
    from tiersnap.remote_storage.upload.tier_partition import tier_partition
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.log.log_dir import open_log_dir
    from tiersnap.snapshot.producer_snapshots import read_snapshot, write_snapshot
    from tiersnap.snapshot.repair.partition import repair
    from tiersnap.snapshot.replay.examine import examine

__all__ = [
    "KafkaSegmentDataSource",
    "RunSettings",
    "Verdict",
    "__version__",
    "examine",
    "open_log_dir",
    "open_store",
    "read_snapshot",
    "repair",
    "run",
    "tier_partition",
    "write_snapshot",
]

_MODULES = {
    "KafkaSegmentDataSource": "tiersnap.jobs.pipeline.source",
    "RunSettings": "tiersnap.jobs.pipeline.before_spark",
    "Verdict": "tiersnap.snapshot.gate.judge",
    "examine": "tiersnap.snapshot.replay.examine",
    "open_log_dir": "tiersnap.snapshot.log.log_dir",
    "open_store": "tiersnap.remote_storage.stores.open_store",
    "read_snapshot": "tiersnap.snapshot.producer_snapshots",
    "repair": "tiersnap.snapshot.repair.partition",
    "run": "tiersnap.jobs.pipeline.run",
    "tier_partition": "tiersnap.remote_storage.upload.tier_partition",
    "write_snapshot": "tiersnap.snapshot.producer_snapshots",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what it is, the imports above say
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
