"""`tiersnap version`."""

from __future__ import annotations

import click

from tiersnap.snapshot import __version__


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"tiersnap {__version__}")
