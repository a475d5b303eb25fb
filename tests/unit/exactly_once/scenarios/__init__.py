"""Scenarios of exactly-once by number, a module a theme; test_scenarios.py runs them."""

import pytest

pytest.register_assert_rewrite(
    *(
        f"tests.unit.exactly_once.scenarios.{name}"
        for name in ("appends", "clients", "coordinator", "hanging", "losses", "snapshots", "transaction_state")
    )
)
