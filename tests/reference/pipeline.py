"""Runs of the main job in this process: small, fast, and killable at any step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiersnap.jobs.engine import LocalEngine
from tiersnap.snapshot.stages.carry_plan import CarryOptions

from tests.reference.log_builder import TIMESTAMP
from tiersnap.jobs.pipeline.run import Outcome, run_stages
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.remote_storage.layouts.aiven_layout import AivenLayout
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store

DAY = 86_400_000


@dataclass
class Runner:
    """`tiersnap run --engine local` on one source, warehouse and remote; each call is one run."""

    folder: Path
    source: Path
    warehouse: str = ""
    remote: str = ""
    layout: Layout = field(default_factory=AivenLayout)
    said: list[str] = field(default_factory=list)
    runs: int = 0

    def __post_init__(self) -> None:
        self.warehouse = self.warehouse or str(self.folder / "warehouse")
        self.remote = self.remote or str(self.folder / "remote")

    @property
    def store(self) -> ObjectStore:
        return open_store(self.remote)

    def __call__(
        self,
        *,
        apply: bool = True,
        store: ObjectStore | None = None,
        expiration: int | None = None,
        as_of: int = TIMESTAMP + DAY // 2,
        producer_expiration: int | None = DAY,
        every_boundary: bool = False,
        replace: bool = False,
        sources: tuple[str, ...] = (),
        now: int | None = None,
        **more: Any,
    ) -> Outcome:
        self.runs += 1
        settings = RunSettings(
            sources=sources or (str(self.source),),
            warehouse=self.warehouse,
            run_id=f"run-{self.runs}",
            now=self.runs if now is None else now,
            carry=CarryOptions(expiration, as_of, producer_expiration, every_boundary, replace),
            remote=self.remote,
            apply=apply,
            **more,
        )
        return run_stages(
            LocalEngine(1), settings, store=store or self.store, layout=self.layout, talk=self.said.append
        )

    def objects(self) -> dict[str, bytes]:
        """Every object by key."""
        return {info.key: self.store.get(info.key) for info in self.store.list()}


class KilledError(BaseException):
    """The process is gone: nothing that would clean up sees it pass."""


@dataclass
class Clock:
    """Counts steps and ends the process before one of them."""

    dies_before: int = -1
    steps: int = 0

    def step(self, action: Callable[[], Any]) -> Any:
        """One step; once the process is dead, none is done."""
        number, self.steps = self.steps, self.steps + 1
        if 0 <= self.dies_before <= number:
            raise KilledError
        return action()


class KillableStore:
    """A store whose process dies at a step of the clock."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    @property
    def uri(self) -> str:
        return self._store.uri

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in ("put_if_absent", "put_file_if_absent", "replace", "replace_if", "delete"):
            return lambda *args, **kwargs: self._clock.step(lambda: method(*args, **kwargs))
        return method
