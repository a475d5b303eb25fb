"""The marker of tests that need Chromium."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: a real Chromium, without network")
