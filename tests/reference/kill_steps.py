"""A command killed by `kill -9` in front of its n-th step that changes a disk."""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from tiersnap.jobs.main import run

STEPS = ("fsync", "rename", "replace", "link", "unlink", "mkdir")


def killed_at(step: int, *words: str | Path) -> bool:
    """Run `tiersnap WORDS` in a child that kills itself in front of step `step`; False if it has fewer steps."""
    child = os.fork()
    if child == 0:
        taken = 0

        def counted(real: Callable) -> Callable:
            def call(*args, **options):
                nonlocal taken
                taken += 1
                if taken == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **options)

            return call

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        silent = io.StringIO()
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            code = run([str(word) for word in words])
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def every_kill(prepare: Callable[[], tuple[str | Path, ...]]) -> Iterator[int]:
    """Each step at which a command was killed, until one of them is not; `prepare` lays everything anew."""
    step = 1
    while killed_at(step, *prepare()):
        yield step
        step += 1


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but `.lock`, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }
