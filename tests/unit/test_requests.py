"""Deadlines bound requests in every thread that is started under them."""

from __future__ import annotations

import pytest

from tiersnap.remote_storage.stores.requests import Deadline, current, in_parallel, in_waves
from tiersnap.snapshot.context_pool import ContextPool

pytestmark = pytest.mark.unit


def remaining(_: object) -> float | None:
    return current().remaining()


def test_in_parallel_asks_under_the_deadline_of_its_caller() -> None:
    with Deadline(0):
        assert in_parallel(remaining, range(20)) == [0.0] * 20
    assert in_parallel(remaining, [1]) == [None]


def test_in_waves_asks_under_the_deadline_of_its_caller() -> None:
    with Deadline(0):
        assert [each for wave in in_waves(remaining, range(20)) for each in wave] == [0.0] * 20


def test_context_pool_keeps_a_deadline_that_a_task_sets_to_that_task() -> None:
    def asked(seconds: float | None) -> float | None:
        with Deadline(seconds):
            return current().remaining()

    with ContextPool(1) as pool:
        assert list(pool.map(asked, [0.0, None])) == [0.0, None]
