"""A world in place of what lies outside the process: S3, the cluster, the clock, ids and processes.

Nothing of tiersnap is replaced. Threads of a pool become calls, so that one seed gives one order of requests.
"""

from __future__ import annotations

import contextlib
import io
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cache, cached_property
from importlib import import_module
from pkgutil import walk_packages
from random import Random

import pytest

from tests.protocol.world import World
from tiersnap import remote_storage
from tiersnap.remote_storage.stores import s3_store
from tiersnap.remote_storage.upload.tier_job import Tierer


class Inline:
    """A ContextPool without threads."""

    def __init__(self, workers: int = 0, **_: object) -> None:
        pass

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable, *items: object) -> Iterator[object]:
        return map(work, *items)

    def submit(self, work: Callable, *items: object) -> Future:
        done: Future = Future()
        try:
            done.set_result(work(*items))
        except BaseException as error:
            done.set_exception(error)
        return done

    def shutdown(self, **_: object) -> None:
        pass


class Clock:
    """The module `time`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        return self._world.store.time / 1000

    def time_ns(self) -> int:
        return self._world.store.time * 1_000_000

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)


REPLACED: dict[str, Callable[[World], object]] = {
    "Cluster": lambda world: lambda *_: world.hand().cluster,
    "S3Store": lambda world: lambda *_: world.hand().store,
    "ContextPool": lambda world: Inline,
    "Tierer": lambda world: (
        lambda run_id, now: Tierer(run_id, now, process=world.hand().process, wait=5, pause=world.sleep)
    ),
    "lock": lambda world: contextlib.nullcontext(),
    "new_run_id": lambda world: lambda: world.hand().run_id,
    "this_process": lambda world: lambda: world.hand().process,
    "time": Clock,
}
COMMANDS = ("maintain", "mend", "publish", "restore", "tier", "unblock", "verify")
EVERYWHERE = ("Cluster", "ContextPool", "Tierer", "new_run_id")


@cache
def _places() -> list[tuple[object, str]]:
    """Objects of tiersnap, and what is replaced there; commands import their parts when they run."""
    for part in walk_packages(remote_storage.__path__, f"{remote_storage.__name__}."):
        import_module(part.name)
    for name in ("pipeline.settings", "cli.options", *(f"commands.{each}" for each in COMMANDS)):
        import_module(f"tiersnap.jobs.{name}")
    found: list[tuple[object, str]] = [(s3_store, "S3Store")]
    for name, module in sys.modules.items():
        if not name.startswith("tiersnap."):
            continue
        for each in (vars(each) for each in vars(module).values() if isinstance(each, type)):
            # Python 3.11 locks a cached property for all commands of this process.
            found += [(lazy, "lock") for lazy in each.values() if isinstance(lazy, cached_property)]
        found += [(module, each) for each in EVERYWHERE if hasattr(module, each)]
        if getattr(module, "time", None) is time and ".remote_storage." in name:
            found.append((module, "time"))
        if ".cluster." in name and hasattr(module, "this_process"):
            found.append((module, "this_process"))
    return found


@contextlib.contextmanager
def installed(world: World, seed: int) -> Iterator[None]:
    """Let commands of this process see this world; what they say is kept in its events."""
    ids = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128), version=4))
        patch.setattr(secrets, "token_hex", lambda size: ids.randbytes(size).hex())
        for module, name in _places():
            patch.setattr(module, name, REPLACED[name](world))
        with Said(world) as said, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            yield


class Said(io.StringIO):
    """What commands say on stderr."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def write(self, text: str) -> int:
        if text.strip():
            self._world.events.append(text.strip())
        return len(text)
