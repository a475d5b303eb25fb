"""How tests run under a mutant: the same examples each time, nothing shrunk and nothing remembered."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """After the tests' own profile was loaded, before a test module is."""
    settings.register_profile(
        "mutants", settings.get_profile("ci"), derandomize=True, phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile("mutants")
