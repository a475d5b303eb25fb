"""A pool of threads whose tasks run in the context of the code that submitted them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ContextPool(ThreadPoolExecutor):
    """Runs each task in a copy of the submitter's context, so that a deadline bounds requests of all threads."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See ThreadPoolExecutor.submit; `map` submits through it."""
        context = copy_context()
        return super().submit(lambda: context.run(fn, *args, **kwargs))
