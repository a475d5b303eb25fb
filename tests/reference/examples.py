"""How many examples a property test tries: as many as it says in CI, ten times as many at night."""

from __future__ import annotations

from hypothesis import settings

_IN_CI = 100  # max_examples of hypothesis itself, which the profile `ci` keeps


def examples(count: int) -> int:
    """Return the `max_examples` of a test that tries `count` in CI."""
    return count * settings.default.max_examples // _IN_CI
