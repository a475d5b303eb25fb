"""The requests of a host whose partitions are all tiered, as a real S3 server gets them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.reference.log_builder import data_batch, write_partition
from tests.reference.planned import TOPIC_ID
from tests.reference.tiered import aiven
from tests.s3.fault_proxy import FaultProxy
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.remote_storage.upload.tier_host import HostPartition, HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.log.selection import Selection, open_log_dirs, selected_of
from tiersnap.snapshot.replay.expiry import ReplayOptions

pytestmark = pytest.mark.s3

NOW = 1_795_266_000_000
COUNT = 24
ALONE = 4  # partitions of a topic that are listed one by one
SEGMENTS = {base: [data_batch(base, 10, 7, 0, base)] for base in (0, 10)}
# Of one tiered segment. The claim shows that it is finished, and its snapshot starts the replay of the active segment.
OF_PARTITION = {"manifest": 2, "claim": 1, "log": 1, "indexes": 1}


def tier(store: S3Store, logs: Path) -> list[HostPartition]:
    host = HostTier(aiven(store), ReplayOptions(), Tierer("run", NOW, wait=0, pause=lambda _: None), apply=True)
    return list(host.partitions(selected_of(open_log_dirs([str(logs)]), Selection())))


def kinds(requests: list[str]) -> Counter[str]:
    """Count the requests by the kind of the object, listings as `list`, and everything but GET as it is."""
    found: Counter[str] = Counter()
    for request in requests:
        path, _, query = unquote(request).partition("?")
        if not path.startswith("GET "):
            found[request] += 1
        elif "list-type" in query:
            found["list"] += 1
        elif "/claims/" in path:
            found["claim"] += 1
        else:
            found[path.rpartition(".")[2].removeprefix("rsm-")] += 1
    return found


def test_a_no_op_of_many_partitions_lists_their_topic(proxy: FaultProxy, faulty_store: S3Store, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for number in range(COUNT):
        write_partition(logs, "orders", number, SEGMENTS, high_watermark=20, topic_id=TOPIC_ID, indexes=True)
    tier(faulty_store, logs)
    proxy.requests.clear()
    done = tier(faulty_store, logs)
    assert [each.verdicts[Verdict.UPLOADED] for each in done] == [1] * COUNT
    found = kinds(proxy.requests)
    assert found.pop("list") == 2 * ALONE + 2
    assert found == {kind: COUNT * count for kind, count in OF_PARTITION.items()}
