"""The options that all uploads have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class UploadOptions:
    """The options of all jobs that upload segments."""

    rate: int | None = None  # bytes of segments a second, of all workers together; None for no limit
    allow_plaintext: bool = False  # also among segments that the plugin encrypted
    apply: bool = False  # write; otherwise only plan
