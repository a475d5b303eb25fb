"""Return the command that adds an extra to the installed tiersnap.

No public package index has the name tiersnap. So no message may suggest an install by name: whoever registers the name
could run code on broker hosts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

EXTRAS = {
    "spark": ("pyspark", "py4j", "delta", "deltalake", "pandas"),
    "s3": ("boto3", "botocore", "s3transfer"),
    "kafka": ("confluent_kafka",),
    "demo": ("moto",),
}
"""The modules that each extra brings, the most important one first."""

_OF_EXTRA = re.compile(r"(?P<package>.*?)\s*;\s*extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")
_ELSEWHERE = "install the wheel into a virtual environment: pip install 'FILE.whl[{}]'"


def with_extra(extra: str, copy: Distribution | None = None) -> str:
    """Return the shell command that installs an extra. If no such command exists, return an instruction as text.

    If the checkout or wheel of this installation still exists, the command installs from it. Otherwise the command
    names the packages of the extra.

    Args:
        extra: one extra, or several separated by commas.
        copy: metadata of an installed package; None means the running tiersnap.
    """
    if "PEX" in os.environ:
        return f"this single-file tiersnap includes only the extras s3 and kafka; {_ELSEWHERE.format(extra)}"
    words = _packages(extra, copy or _of_this_one())
    return shlex.join([*_install(), *words]) if words else _ELSEWHERE.format(extra)


def _of_this_one() -> Distribution | None:
    # The import is slow, and most commands lack no extra.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("tiersnap")
    except PackageNotFoundError:
        return None


def _install() -> list[str]:
    """Return the install command without package names.

    An environment without pip was created by uv, so use uv there.
    """
    if find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]


def _packages(extra: str, copy: Distribution | None) -> list[str]:
    """Return the packages to install: the path in direct_url.json (PEP 610), else the names in METADATA."""
    if copy is None:
        return []
    source = json.loads(copy.read_text("direct_url.json") or "{}")
    url = urlsplit(source.get("url", ""))
    path = Path(unquote(url.path))
    if url.scheme == "file" and path.exists():
        is_editable = source.get("dir_info", {}).get("editable", False)
        return [*(["-e"] if is_editable else []), f"{path}[{extra}]"]
    found: list[str] = []
    for each in copy.requires or ():
        match = _OF_EXTRA.fullmatch(each)
        if match is not None and match["extra"] in extra.split(","):
            found.append(match["package"])
    return found
