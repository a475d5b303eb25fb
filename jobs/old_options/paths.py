"""Option types for paths of the local disk."""

from __future__ import annotations

from pathlib import Path

import click

from tiersnap.jobs.shown import masked


class LocalPath(click.Path):
    """A path as click takes it; a URI is a usage error, where it would silently make folders named after the scheme."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path, or a usage error."""
        text = str(value)
        if "://" in text or text.startswith(("s3:", "file:", "hdfs:")):
            self.fail(f"{masked(text)!r} is a URI; this takes a path of the local disk", param, ctx)
        super().convert(text, param, ctx)
        return Path(text)
