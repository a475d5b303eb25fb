"""Several actors over one store, one call at a time, in an order that a test chooses.

    turns = Turns(choose)                     # `choose(names)` says whose call is next
    turns.add("a", lambda store: …)           # each actor has a thread and a view of the store of its own
    turns.run(store)                          # until all have ended; results by name

Between two calls of the store an actor does as it likes, at a call it waits for its turn. So every interleaving of
calls is one sequence of choices, which hypothesis can look for and shrink. An actor that is killed gets no turn more.
What else is to be a call, such as a request to a cluster, waits with `Actor.turn`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tiersnap.remote_storage.stores.object_store import ObjectStore

_PATIENCE = 300  # seconds, for all the calls of the others: a busy disk takes its time


class Killed(BaseException):
    """The actor's process is gone; no `except Exception` survives it."""


@dataclass
class Actor:
    name: str
    action: Callable[[Any], object]
    go: threading.Event = field(default_factory=threading.Event)
    waits: threading.Event = field(default_factory=threading.Event)  # for its turn, or has ended
    ended: bool = False
    killed: bool = False
    result: object = None

    def turn(self) -> None:
        """Wait until it is this actor's turn."""
        self.waits.set()
        assert self.go.wait(_PATIENCE)
        self.go.clear()
        if self.killed:
            raise Killed


@dataclass
class Turns:
    choose: Callable[[list[str]], str]
    view: Callable[[ObjectStore, Actor, list[str]], Any] | None = None  # of the store, for each actor; see run
    actors: dict[str, Actor] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def add(self, name: str, action: Callable[[Any], object]) -> None:
        self.actors[name] = Actor(name, action)

    def kill(self, name: str) -> None:
        """To be called by `choose`: the actor ends in front of its next call."""
        self.actors[name].killed = True

    def run(self, store: ObjectStore) -> dict[str, object]:
        """Results by name: what the action returned, or the exception that ended it."""
        threads, view = [], self.view or _View
        for actor in self.actors.values():
            thread = threading.Thread(target=_play, args=(actor, view(store, actor, self.calls)), daemon=True)
            thread.start()
            threads.append(thread)
            assert actor.waits.wait(_PATIENCE)
        while alive := [actor.name for actor in self.actors.values() if not actor.ended]:
            actor = self.actors[self.choose(alive)]
            actor.waits.clear()
            actor.go.set()
            assert actor.waits.wait(_PATIENCE)
        for thread in threads:
            thread.join(_PATIENCE)
        return {name: actor.result for name, actor in self.actors.items()}


class _View:
    def __init__(self, store: ObjectStore, actor: Actor, calls: list[str]) -> None:
        self._store, self._actor, self._calls = store, actor, calls

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def words(self) -> list[str]:
        return self._store.words

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*args: object, **options: object) -> object:
            self._actor.turn()
            self._calls.append(f"{self._actor.name} {name}")
            return method(*args, **options)

        return call


def _play(actor: Actor, view: Any) -> None:
    try:
        actor.result = actor.action(view)
    except BaseException as error:
        actor.result = error
    actor.ended = True
    actor.waits.set()
