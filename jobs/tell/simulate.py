"""What `simulate` shows: a row a kind of write, and the sentence over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tiersnap.jobs.output import Format, Output, Row
from tiersnap.jobs.tell.unknown_beginnings import lines, with_remote
from tiersnap.snapshot.exactly_once.simulate.log_dir import HostSimulation
from tiersnap.snapshot.log.log_dir import Partition
from tiersnap.snapshot.log.selection import NamedLogDir

_OF_WRITE = ("partition", "producer_id", "write", "known", "leader_answer", "replica_answer", "doubles")
_ANSWERED = ("brokers", "leader_answer", "replica_answer", "clients", "reaction")
_OF_CLASS = ("partition", "at", "write", "writes", *_ANSWERED)
_OF_FLEET = ("write", "writes", "partitions", *_ANSWERED)


def show_host(
    output: Output,
    simulation: HostSimulation,
    log_dirs: Sequence[NamedLogDir],
    partitions: Iterable[tuple[NamedLogDir, Partition]],
) -> None:
    """The partitions are simulated while they are shown."""
    summary: dict[str, object] = {"summary": "", "not_compared": 0}

    def rows() -> Iterator[Row]:
        yield from simulation.rows(partitions)
        summary["summary"] = simulation.sentence()  # known when all partitions are read
        summary["not_compared"] = len(simulation.not_compared)

    where = ("log_dir",) if len(log_dirs) > 1 else ()
    columns = (*where, *(_OF_WRITE if simulation.by_producer else _OF_CLASS))
    output.row_dicts("simulate", rows(), columns=columns, findings=simulation.findings, summary=summary)
    for message in simulation.said:
        output.talk(message)
    for line in lines(simulation.beginnings):
        output.warn(line)
    if simulation.not_compared and simulation.beginnings.find is None:
        output.talk(f"next: {with_remote()}")


def show_fleet(output: Output, rows: Iterable[Row], sentence: str, said: Sequence[str]) -> None:
    """Rows counted over the partitions of a warehouse."""
    output.row_dicts("simulate", rows, columns=_OF_FLEET, summary={"summary": sentence})
    if output.format is Format.JSONL:
        output.talk(sentence)
    for message in said:
        output.talk(message)
