"""What somebody else does while a command is at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def after_the_first(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], None]) -> None:
    """Let somebody else do something right behind the first call of what `owner` has as `name`."""
    real = getattr(owner, name)
    pending = [act]

    def then(*args: object, **options: object) -> object:
        result = real(*args, **options)
        if pending:
            pending.pop()()
        return result

    monkeypatch.setattr(owner, name, then)
