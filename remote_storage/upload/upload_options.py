"""The options of commands that upload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class UploadOptions:
    """The common options of commands that upload segments."""

    rate: int | None = None  # bytes per second of all workers together; None for no limit
    allow_plaintext: bool = False  # upload even if the plugin encrypted other segments
    apply: bool = False  # write; False only plans
