"""A stuck broker, one `tiersnap run`, and the same broker afterwards: `make demo-broker`.

A 2.7.2 broker writes the log, a 4.1.1 broker tiers it. Every claim is checked: the first that does not hold ends the
demo with exit code 1. All brokers listen on loopback, and their files are in a temporary folder.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import KafkaException

from tests.broker.harness import jars
from tests.broker.harness.broker import Broker
from tests.broker.harness.damage import segment_bases
from tests.broker.harness.disks import Disks, kraft_disks
from tests.broker.harness.log_batches import Batch, batches
from tests.broker.harness.places import QUICK
from tests.broker.harness.raw_protocol import resend
from tests.broker.harness.reading import read_all
from tests.broker.harness.scenarios import (
    CURRENT_VERSION,
    FAILING_INTERVAL_MS,
    LEGACY_VERSION,
    NO_SNAPSHOT,
    TOPIC,
    write_legacy_log,
)
from tests.broker.harness.tiering import TOPIC_SETTINGS, LocalTier
from tests.broker.harness.topics import alter_topic, create_topic, log_end, wait_for_leader
from tests.broker.harness.waiting import wait_until
from tests.broker.harness.writing import Workload, write_segments
from tiersnap.snapshot.units import count_of

OBSERVED_SECONDS = 10
DRAINED = {**TOPIC_SETTINGS, "local.retention.ms": "1000"}


class BrokenClaimError(Exception):
    """Raised when the demo sees something else than it claims."""


def claim(holds: bool, what: str) -> None:
    """Raise `what` unless it holds."""
    if not holds:
        raise BrokenClaimError(what)


def upgraded(root: Path) -> Disks:
    """Disks of a 4.1.1 broker that hold the partition of a stopped 2.7.2 broker, under the topic's new id."""
    old = write_legacy_log(root / "old").partition(TOPIC)
    disks = kraft_disks(root / "new", CURRENT_VERSION)
    with Broker(disks, CURRENT_VERSION) as broker:
        create_topic(broker, TOPIC)
        # Takes the first block of producer ids, which the old cluster has handed out, too.
        write_segments(broker, TOPIC, 2, Workload(idempotent=1, transactional=0, early=0))
    folder = disks.partition(TOPIC)
    topic_id = (folder / "partition.metadata").read_bytes()
    shutil.rmtree(folder)
    shutil.copytree(old, folder)
    (folder / "partition.metadata").write_bytes(topic_id)
    return disks


def local_bytes(folder: Path) -> int:
    """Bytes of a partition's segments on the local disk."""
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def tiersnap(*words: str | Path) -> tuple[int, list[str]]:
    """Run a command as a user does; return its exit code and the lines that it prints."""
    command = [sys.executable, "-m", "tests.reference.tiersnap", *map(str, words)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return ran.returncode, ran.stdout.splitlines()


def failures_seen(broker: Broker) -> int:
    """Watch the broker for OBSERVED_SECONDS; return the number of exceptions that it logs meanwhile."""
    before = broker.log.count(NO_SNAPSHOT)
    time.sleep(OBSERVED_SECONDS)
    return broker.log.count(NO_SNAPSHOT) - before


def show_state(broker: Broker, tier: LocalTier) -> tuple[int, int]:
    """Print exceptions, local bytes and remote segments; return exceptions and remote segments."""
    folder = broker.disks.partition(TOPIC)
    failures, remote = failures_seen(broker), len(set(tier.complete_bases(TOPIC)))
    local = len(segment_bases(folder))
    print(f'  "producerStateSnapshotFile" is null: {failures} times in {OBSERVED_SECONDS} s')
    print(
        f"  local: {local_bytes(folder):,} bytes in {count_of(local, 'segment')}; remote: {count_of(remote, 'segment')}"
    )
    return failures, remote


def run_demo(root: Path) -> None:
    """Show the problem, run tiersnap once, and show that the problem is gone.

    Raises:
        BrokenClaimError: a claim does not hold.
    """
    print(
        f"Kafka {LEGACY_VERSION} writes topic {TOPIC}; Kafka {CURRENT_VERSION} takes over its log, tiering on.",
        flush=True,
    )
    disks = upgraded(root)
    folder = disks.partition(TOPIC)
    sent = [batch for batch in batches(folder) if batch.idempotent_only]
    tier = LocalTier(root / "tier", FAILING_INTERVAL_MS)
    with Broker(disks, CURRENT_VERSION, tier=tier, settings=QUICK) as broker:
        wait_for_leader(broker, TOPIC)
        records = read_all(broker, TOPIC)
        alter_topic(broker, TOPIC, DRAINED)
        wait_until(lambda: broker.log.count(NO_SNAPSHOT), "the copy task fails")
        options = ("--remote", tier.directory, "--layout", tier.layout, "--bootstrap-server", broker.bootstrap)
        show_before(broker, tier, options)
        cure(root, broker, options)
        show_after(broker, tier, sent[-1])
        again = read_all(broker, TOPIC)[: len(records)]
        claim(again == records, "the records read afterwards equal the ones before")
        print(f"  a consumer reads {len(again)} of {len(records)} records from offset 0, all equal")


def show_before(broker: Broker, tier: LocalTier, options: tuple[str | Path, ...]) -> None:
    """Print the broker's state and what `doctor` says of it."""
    print("\nbefore", flush=True)
    failures, remote = show_state(broker, tier)
    claim(failures > 0 and remote == 0, "the broker fails and tiers nothing")
    code, lines = tiersnap("doctor", broker.disks.log_dir, *options)
    claim(code == 4, f"doctor ends with 4, not {code}:\n" + "\n".join(lines))
    print("$ tiersnap doctor")
    print("\n".join(f"  {line}" for line in lines if re.search(TOPIC, line) or "MISSING" in line))


def cure(root: Path, broker: Broker, options: tuple[str | Path, ...]) -> None:
    """Run the main job once, and print its last lines."""
    words = ("run", "--source", broker.disks.log_dir, *options, "--warehouse", root / "warehouse", "--apply")
    print("\n$ tiersnap run --source LOGDIR --remote URI --bootstrap-server HOST:PORT --apply", flush=True)
    code, lines = tiersnap(*words)
    claim(code == 0, f"run ends with 0, not {code}:\n" + "\n".join(lines))
    print("\n".join(f"  {line}" for line in lines if "publish" in line or "TIERED" in line))


def show_after(broker: Broker, tier: LocalTier, last: Batch) -> None:
    """Write on, wait until the local files are deleted, print the state, and send a batch again."""
    folder = broker.disks.partition(TOPIC)
    closed = len(segment_bases(folder)) - 1
    write_segments(broker, TOPIC, len(segment_bases(folder)) + 2, name="later-")
    wait_until(lambda: len(segment_bases(folder)) == 1, "local files are deleted", seconds=60)
    print("\nafter", flush=True)
    failures, remote = show_state(broker, tier)
    claim(failures == 0, f"the exception ends, not {failures} more")
    claim(remote > closed, f"copy tasks go on behind {closed} segments, not {remote}")
    end = resend_is_refused(broker, last)
    print(
        f"  a batch sent again (producer {last.producer_id}, sequence {last.base_sequence}): duplicate, log end {end}"
    )


def resend_is_refused(broker: Broker, batch: Batch) -> int:
    """Send a batch again; return the log end, which must not move."""
    end = log_end(broker, TOPIC)
    resent = resend(broker, TOPIC, [batch])
    claim(resent.duplicates == 1, f"the broker answers a resent batch as a duplicate, not {resent}")
    claim(log_end(broker, TOPIC) == end, "the log end does not move")
    return end


def main() -> int:
    """Run the demo in a temporary folder; return 1 if a claim does not hold."""
    missing = jars.missing(LEGACY_VERSION, CURRENT_VERSION)
    if missing:
        print(missing, file=sys.stderr)
        return 2
    # A request to end leaves the contexts too, which end the brokers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tiersnap-demo-", ignore_cleanup_errors=True) as folder:
        try:
            run_demo(Path(folder))
        except (BrokenClaimError, AssertionError, KafkaException) as error:
            print(f"this does not hold: {error}", file=sys.stderr)
            return 1
    print(f"\nin {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
