"""A thread pool whose tasks run in the context (contextvars) of the code that submitted them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ContextPool(ThreadPoolExecutor):
    """A thread pool that runs each task in a copy of the submitter's context.

    So a deadline that the submitter sets in its context also limits the requests that the tasks send.
    """

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See ThreadPoolExecutor.submit. `map` calls this method, so its tasks also run in the submitter's context."""
        context = copy_context()
        return super().submit(lambda: context.run(fn, *args, **kwargs))
