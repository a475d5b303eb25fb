"""What all tests share: profiles of hypothesis, and no configuration, log level or broker from elsewhere.

The profile `ci`, which is loaded here, tries the same examples at each run: a red test is a new defect. `make nightly`
names `nightly` (`--hypothesis-profile`): other examples each night, and ten times as many.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_OF_THE_TESTS = ("TIERSNAP_AIVEN_SOURCE", "TIERSNAP_JARS", "TIERSNAP_REQUIRE_KAFKA")
_CHECKS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("ci", derandomize=True, **_CHECKS)
settings.register_profile("nightly", max_examples=1000, print_blob=True, **_CHECKS)
settings.load_profile("ci")

# A shell ignores SIGINT for what it starts in the background, and commands that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TIERSNAP_… variable of the shell that runs the tests changes nothing in them."""
    for name in list(os.environ):
        if name.startswith("TIERSNAP_") and name not in _OF_THE_TESTS:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def log_level_of_no_other_test() -> Iterator[None]:
    """A command that runs inside a test sets the level of the root logger for good; the next test starts without it."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.fixture(autouse=True)
def no_broker_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without LOGDIR asks the broker of this host, and other tests start some."""
    monkeypatch.setattr("tiersnap.jobs.cli.situation_options.PROC", Path("/nowhere"))
