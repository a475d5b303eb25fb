"""Where tasks run: in this process and its children, or on Spark. Same tasks, same rows."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Protocol

import pyarrow as pa

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Engine(Protocol):
    """Runs a picklable task once for each plan row."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        ...

    def map(self, name: str, plan: pa.Table, task: Task, schema: pa.Schema) -> pa.Table:
        """Result rows of all plan rows, in no particular order; `name` is what a person sees of the stage."""
        ...


class LocalEngine:
    """Processes of this host, the same ones for all stages; a single plan row runs right here."""

    def __init__(self, processes: int) -> None:
        self.parallelism = processes
        self._pool: ProcessPoolExecutor | None = None

    def map(self, name: str, plan: pa.Table, task: Task, schema: pa.Schema) -> pa.Table:
        """Run each plan row in some process; when one fails, nothing runs any more as that is raised."""
        rows = [plan.slice(row, 1) for row in range(plan.num_rows)]
        if self.parallelism == 1 or len(rows) <= 1:
            results = [_run(task, row) for row in rows]
        else:
            try:
                results = list(self._started().map(_run, [task] * len(rows), rows))
            except BaseException as error:
                if not isinstance(error, Exception):
                    # Interrupted: what runs is not waited for, since the next run goes on from anywhere.
                    for process in multiprocessing.active_children():
                        process.terminate()
                self._end()
                raise
        batches = [batch for result in results for batch in result]
        return pa.Table.from_batches(batches, schema=schema)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Not fork: Arrow's and boto3's threads do not survive it.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.parallelism, mp_context=context, initializer=_end_with_parent)
        return self._pool

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _end_with_parent() -> None:
    """A parent that is killed cannot end its processes, so they watch it; Ctrl-C is for the parent to tell of."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _run(task: Task, row: pa.Table) -> list[pa.RecordBatch]:
    return list(task(iter(row.to_batches())))


class LazyEngine:
    """An engine that is made when it is first needed: a run that finds little that is new starts no Spark."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None

    @property
    def has_started(self) -> bool:
        """Whether the engine is there."""
        return self._engine is not None

    def _started(self) -> Engine:
        if self._engine is None:
            self._engine = self._make()
        return self._engine

    @property
    def parallelism(self) -> int:
        """See Engine."""
        return self._started().parallelism

    def map(self, name: str, plan: pa.Table, task: Task, schema: pa.Schema) -> pa.Table:
        """See Engine."""
        return self._started().map(name, plan, task, schema)


def suited(engine: Engine, work: int, *, little: int) -> Engine:
    """This process in place of an engine that has yet to start, where `work` is at most `little`."""
    is_cold = isinstance(engine, LazyEngine) and not engine.has_started
    return LocalEngine(1) if is_cold and work <= little else engine
