"""The options of all uploads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class UploadOptions:
    """The options of all jobs that upload segments."""

    rate: int | None = None  # bytes of segments a second, of all workers together; None for no limit
    allow_plaintext: bool = False  # upload although the plugin encrypted other segments
    apply: bool = False  # write; False: only plan
