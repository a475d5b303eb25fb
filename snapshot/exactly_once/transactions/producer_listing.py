"""The producers of partitions, one partition after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tiersnap.snapshot.exactly_once.transactions.producers import producer_rows, replay_to_end
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.log_dir import LogDir, Partition


@dataclass
class ProducerListing:
    """Lists them, and adds up what it finds.

    Attributes:
        producer_expiration: ms, after which brokers drop an idle producer; None for never.
        as_of: epoch ms.
        findings: what is damaged or may not be read.
        expired: number of producers that are left out, since brokers have dropped them.
    """

    producer_expiration: int | None
    as_of: int
    check_crc: bool = True
    findings: list[Finding] = field(default_factory=list)
    expired: int = 0

    def rows(self, partitions: Iterable[tuple[LogDir, Partition]]) -> Iterator[dict[str, object]]:
        """Rows of `producer_rows`."""
        for log_dir, each in partitions:
            replayed = replay_to_end(log_dir.filesystem, each, check_crc=self.check_crc)
            self.findings.extend(replayed.examination.findings)
            live = replayed.live(as_of=self.as_of, expiration=self.producer_expiration)
            self.expired += (0 if replayed.entries is None else replayed.entries.size) - live.size
            yield from producer_rows(each, live)
