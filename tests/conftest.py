"""What all tests share: settings of hypothesis, and nobody else's configuration."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "tiersnap", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("tiersnap")


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TIERSNAP_… variable of the shell that runs the tests changes nothing in them."""
    for name in list(os.environ):
        if name.startswith("TIERSNAP_") and name not in ("TIERSNAP_JARS", "TIERSNAP_REQUIRE_KAFKA"):
            monkeypatch.delenv(name)
