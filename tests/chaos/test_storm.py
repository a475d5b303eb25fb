"""A short storm with a fixed seed: `make chaos` runs longer ones."""

from __future__ import annotations

import os

import pytest

from tests.broker.harness import jars
from tests.chaos.node import VERSION
from tests.chaos.run import run

SEED, MINUTES = 1, 5

pytestmark = [pytest.mark.broker, pytest.mark.nightly]


# What librdkafka's callbacks raise in threads of their own is no warning of ours.
@pytest.mark.filterwarnings("default")
def test_a_short_storm_breaks_no_promise(tmp_path):
    reason = jars.missing(VERSION)
    if reason and os.environ.get("TIERSNAP_REQUIRE_KAFKA"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
    assert run(tmp_path / "chaos", SEED, MINUTES), "the lines above say what; the history is in the folder"
