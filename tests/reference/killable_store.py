"""A store whose process ends at a chosen step, as SIGKILL ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiersnap.remote_storage.stores.object_store import ObjectStore


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

    @property
    def words(self) -> list[str]:
        return self._store.words

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in ("put_if_absent", "put_file_if_absent", "replace", "replace_if", "delete"):
            return lambda *args, **kwargs: self._clock.step(lambda: method(*args, **kwargs))
        return method
