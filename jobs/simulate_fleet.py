"""`tiersnap simulate --warehouse`: the same over all partitions of a warehouse, told like one."""

from __future__ import annotations

from tiersnap.jobs.output import Format, Output
from tiersnap.snapshot.errors import ExitCode, UsageError
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.simulate.replica import Origin
from tiersnap.snapshot.tasks.simulate_partition import SimulatePartition


def kept_origin(start_from: str | None) -> Origin:
    """The replica's snapshot over a warehouse: the tables hold the state that is computed, and no entries of files.

    Raises:
        UsageError: another one is wanted.
    """
    kept = (str(Origin.OURS), str(Origin.EMPTY))
    if start_from is not None and start_from not in kept:
        raise UsageError(
            f"--from {start_from} needs a LOGDIR", hint=f"over a warehouse --from takes {' or '.join(kept)}"
        )
    return Origin(start_from or kept[0])


def simulate_fleet(
    output: Output,
    master: str | None,
    conf: dict[str, str],
    uri: str,
    selection: Selection,
    task: SimulatePartition,
    *,
    everything: bool,
) -> int:
    """Answers counted over the partitions of a warehouse, and the sentence over all of them."""
    from tiersnap.jobs.pipeline.simulate import simulate_warehouse
    from tiersnap.jobs.session import open_session

    found = simulate_warehouse(open_session(master, conf), uri, selection, task, everything=everything)
    sentence = found.tally.sentence()
    columns = ("write", "writes", "partitions", "brokers", "leader_answer", "replica_answer", "clients", "reaction")
    output.rows("simulate", found.rows, columns=columns, summary={"summary": sentence})
    if output.format is Format.JSONL:
        output.talk(sentence)
    for message in found.said:
        output.talk(message)
    return ExitCode.OK
