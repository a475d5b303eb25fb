"""The main job on very many collected partitions, as rows of scaling.md: `python -m tests.perf.many_partitions`.

One partition of twenty closed segments is collected, and its Parquet is written again under as many names as are asked
for (100,000): what a run reads of a fleet is there, without the segments. Prints what a first run and one with nothing
new took, from a process of their own.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from tests.perf.make_log import LogShape, made
from tests.perf.scale import DATA
from tiersnap.jobs.main import run as tiersnap
from tiersnap.snapshot.collected.marker import LISTING, MARKER, Marker

A_TOPIC = 1000  # partitions
SHAPE = LogShape(batch_bytes=300, size=20 * 60_000, segment_bytes=30_000, producers=10)


def collect_many(count: int, target: Path) -> None:
    """A collected folder of `count` partitions."""
    one = target / "one"
    if tiersnap(["-q", "collect", str(made(SHAPE).path), "--to", str(one), "--apply"]):
        raise RuntimeError("collect failed")
    (folder,) = (path.parent for path in one.rglob(LISTING))
    tables = {path.name: pq.read_table(path) for path in folder.glob("*.parquet")}
    marker = Marker.decode((one / MARKER).read_bytes(), name=MARKER)
    names = []
    many = target / "many"
    for number in range(count):
        topic, partition = f"topic-{number // A_TOPIC:04d}", number % A_TOPIC
        names.append(f"{topic}-{partition}")
        topic_id = base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_OID, topic).bytes).decode().rstrip("=")
        (many / names[-1]).mkdir(parents=True)
        for name, table in tables.items():
            renamed = _with(table, {"topic": topic, "partition": partition, "topic_id": topic_id})
            pq.write_table(renamed, many / names[-1] / name, compression="zstd", write_page_checksum=True)
    (many / MARKER).write_bytes(structs.replace(marker, partitions=tuple(names)).encode())


def _with(table: pa.Table, values: dict[str, object]) -> pa.Table:
    for name, value in values.items():
        position = table.schema.get_field_index(name)
        field = table.schema.field(position)
        table = table.set_column(position, field, pa.array([value] * table.num_rows, field.type))
    return table


def main(count: int) -> None:
    """Make, measure, remove."""
    target = DATA / f"many-{count}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    began = time.monotonic()
    collect_many(count, target)
    print(f"{count} partitions written in {time.monotonic() - began:.0f} s", flush=True)
    words = [sys.executable, "-m", "tests.perf.fleet", "collected", str(target / "many"), str(target / "work")]
    (target / "work").mkdir()
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(json.dumps(json.loads(done.splitlines()[-1]), indent=2))
    shutil.rmtree(target)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
