"""Processes that do without pandas, although PySpark brings it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=name)
        return None


def without_pandas() -> None:
    """Let `import pandas` fail from here on.

    pyarrow imports it, which takes a quarter of a second, to ask whether a plain list is one of its series. Only for
    processes that are ours from start to end: PySpark's `mapInArrow` and data sources want pandas to be there.
    """
    sys.meta_path.insert(0, _NoPandas())
