"""One partition of a broker that lives: it grows, rolls and is cut, and its snapshots get lost and damaged."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.reference import log_builder
from tests.reference.command import tiersnap
from tests.reference.log_builder import TIMESTAMP, leader_epochs_text, offsets_text
from tests.reference.logs import DAY
from tiersnap.snapshot.formats import snapshot_file

HOUR = DAY // 24


class LivingLog:
    """One partition of a broker, changed a step at a time."""

    def __init__(
        self, log_dir: Path, seed: int, *, topic_id: str = "lZ6vvmajTWKDBUTV6SQAtQ", is_tiered: bool = False
    ) -> None:
        """A log of one segment; of one that `is_tiered` retention takes the files and not the log's beginning."""
        self.is_tiered = is_tiered
        self.random = random.Random(seed)
        self.log_dir = log_dir
        self.folder = log_dir / "orders-0"
        self.folder.mkdir(parents=True)
        (self.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        self.end = 0
        self.time = TIMESTAMP - 40 * HOUR
        self.high_watermark = 0
        self.log_start = 0
        self.open: set[int] = set()
        self.ticks = 0
        self.roll()
        self.append()

    def bases(self) -> list[int]:
        return sorted(int(path.name[:20]) for path in self.folder.glob("*.log"))

    def touch(self, path: Path) -> None:
        """A modification time that no earlier file had."""
        self.ticks += 1
        os.utime(path, ns=(self.ticks * 10**9, self.ticks * 10**9))

    def append(self) -> None:
        """Some batches to the active segment."""
        entries = []
        for _ in range(self.random.randint(1, 6)):
            self.time += self.random.choice([0, 1000, HOUR])
            producer = self.random.randint(1, 5)
            if producer in self.open and self.random.random() < 0.6:
                commit = self.random.random() < 0.5
                epoch = self.random.randint(0, 1)
                entries.append(log_builder.marker(self.end, producer, epoch, 0, commit, self.time))
                self.open.discard(producer)
                self.end += 1
                continue
            count = self.random.randint(1, 4)
            transactional = producer > 2
            entries.append(
                log_builder.data_batch(
                    self.end, count, producer, 0, self.end, transactional=transactional, timestamp=self.time
                )
            )
            if transactional:
                self.open.add(producer)
            self.end += count
        path = self.folder / f"{self.bases()[-1]:020d}.log"
        with path.open("ab") as file:
            file.write(b"".join(entries))
        self.touch(path)

    def roll(self) -> None:
        """A new active segment, now and then behind a gap."""
        if self.bases() and self.random.random() < 0.1:
            self.end += 2
        for base in self.bases()[-1:]:
            closed = self.folder / f"{base:020d}.log"
            closed.with_suffix(".timeindex").write_bytes(log_builder.last_time_entry(closed.read_bytes(), base))
        stem = f"{self.end:020d}"
        for suffix in ("log", "index", "timeindex"):
            (self.folder / f"{stem}.{suffix}").touch()
        self.touch(self.folder / f"{stem}.log")

    def roll_and_append(self) -> None:
        self.roll()
        self.append()

    def retain(self) -> None:
        """Retention deletes the oldest segment and what is beside it."""
        bases = self.bases()
        if len(bases) > 2:
            for path in self.folder.glob(f"{bases[0]:020d}.*"):
                path.unlink()
            if not self.is_tiered:
                self.log_start = max(self.log_start, bases[1])

    def move_log_start(self) -> None:
        """DeleteRecords."""
        self.log_start = min(self.high_watermark, self.log_start + self.random.randint(1, 6))

    def move_high_watermark(self) -> None:
        self.high_watermark = self.random.choice([self.end, self.random.randint(self.high_watermark, self.end)])

    def follower_is_behind(self) -> None:
        """The checkpoint of a broker that has just started is older than what was seen before."""
        self.high_watermark = self.random.randint(0, self.high_watermark)

    def write_snapshot(self, right: Path) -> None:
        """A broker's file: right, empty, damaged, or of another offset."""
        files = sorted(right.rglob("*.snapshot"))
        if not files:
            return
        source = self.random.choice(files)
        data = source.read_bytes()
        offset = int(source.name[:20])
        kind = self.random.choice(["right", "right", "empty", "damaged", "stale", "zero bytes"])
        if kind == "empty":
            data = snapshot_file.encode(snapshot_file.decode(data)[:0])
        elif kind == "damaged":
            data = data[:-1] + b"?"
        elif kind == "zero bytes":
            data = b""
        elif kind == "stale":
            data = self.random.choice(files).read_bytes()
        path = self.folder / f"{offset:020d}.snapshot"
        path.write_bytes(data)
        self.touch(path)

    def drop_snapshot(self) -> None:
        files = sorted(self.folder.glob("*.snapshot"))
        if files:
            self.random.choice(files).unlink()

    def lose_index(self) -> None:
        files = sorted(self.folder.glob("*.index"))
        self.random.choice(files).unlink(missing_ok=True) if files else None

    def write_checkpoints(self) -> None:
        key = ("orders", 0)
        bases = self.bases()
        (self.log_dir / "replication-offset-checkpoint").write_text(offsets_text({key: self.high_watermark}))
        (self.log_dir / "log-start-offset-checkpoint").write_text(offsets_text({key: self.log_start}))
        (self.folder / "leader-epoch-checkpoint").write_text(leader_epochs_text([(0, min(bases[0], self.log_start))]))


STEPS = (
    "append",
    "append",
    "roll_and_append",
    "roll_and_append",
    "retain",
    "move_log_start",
    "move_high_watermark",
    "move_high_watermark",
    "follower_is_behind",
    "write_snapshot",
    "write_snapshot",
    "drop_snapshot",
    "lose_index",
)


def live(log: LivingLog, step: str, folder: Path) -> None:
    """Let one thing happen to the log; `folder` is a new one to work in."""
    if step == "write_snapshot":
        tiersnap("repair", log.log_dir, "--all", "--expiration", "none", "--out", folder)
        log.write_snapshot(folder)
    else:
        getattr(log, step)()
    log.write_checkpoints()
